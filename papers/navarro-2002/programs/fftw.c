/* FFTW of Navarro et al. 2002, section 6.2: one transform of n x n x n complex numbers by libfftw3, out of place. */
#include <fftw3.h>
#include <stdlib.h>

int main(int count, char **words)
{
    int n = count > 1 ? atoi(words[1]) : 200;
    size_t all = (size_t)n * n * n;
    fftw_complex *in = fftw_malloc(all * sizeof *in), *out = fftw_malloc(all * sizeof *out);
    if (!in || !out)
        return 1;
    /* The plan that needs no measurements is the same in every run. The Alpha has no vectors. */
    fftw_plan plan = fftw_plan_dft_3d(n, n, n, in, out, FFTW_FORWARD, FFTW_ESTIMATE | FFTW_NO_SIMD);
    for (size_t i = 0; i < all; i++) {
        in[i][0] = (double)(i % 1009) / 1009;
        in[i][1] = 0;
    }
    fftw_execute(plan);
    return out[0][0] > 0 ? 0 : 2;
}
