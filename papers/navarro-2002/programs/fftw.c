/* FFTW of Navarro et al. 2002, section 6.2: one transform of n x n x n complex numbers by FFTW 2, out of place. */
#include <fftw.h>
#include <stdlib.h>

int main(int count, char **words)
{
    int n = count > 1 ? atoi(words[1]) : 200;
    size_t all = (size_t)n * n * n;
    fftw_complex *in = malloc(all * sizeof *in), *out = malloc(all * sizeof *out);
    if (!in || !out)
        return 1;
    /* The plan that needs no measurements is the same in every run. */
    fftwnd_plan plan = fftw3d_create_plan(n, n, n, FFTW_FORWARD, FFTW_ESTIMATE);
    for (size_t i = 0; i < all; i++) {
        in[i].re = (double)(i % 1009) / 1009;
        in[i].im = 0;
    }
    fftwnd_one(plan, in, out);
    return out[0].re > 0 ? 0 : 2;
}
