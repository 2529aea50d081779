/* In place of swim of SPEC CPU2000: the shallow-water equations by finite differences on a periodic grid of n x n, with
 * fourteen arrays of doubles as there. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int n;
static double *array(void) { return malloc((size_t)n * n * sizeof(double)); }

int main(int count, char **words)
{
    n = count > 1 ? atoi(words[1]) : 512;
    int steps = count > 2 ? atoi(words[2]) : 3;
    double *u = array(), *v = array(), *p = array(), *unew = array(), *vnew = array(), *pnew = array();
    double *uold = array(), *vold = array(), *pold = array(), *cu = array(), *cv = array(), *z = array();
    double *h = array(), *psi = array(), dt = 90, dx = 1e5, alpha = 0.001;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) {
            psi[j * n + i] = 1e6 * sin(6.28318 * (i + 0.5) / n) * sin(6.28318 * (j + 0.5) / n);
            p[j * n + i] = pold[j * n + i] = 5e4 + 100 * cos(12.5664 * i / n);
        }
#define AT(a, i, j) a[((j) + n) % n * n + ((i) + n) % n]
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) {
            AT(u, i, j) = AT(uold, i, j) = -(AT(psi, i, j + 1) - AT(psi, i, j)) / dx;
            AT(v, i, j) = AT(vold, i, j) = (AT(psi, i + 1, j) - AT(psi, i, j)) / dx;
        }
    for (int s = 0; s < steps; s++) {
        for (int j = 0; j < n; j++) {
            int o = j * n, up = (j + 1) % n * n;
            for (int i = 0; i < n; i++) {
                int r = i + 1 == n ? 0 : i + 1;
                cu[o + i] = 0.5 * (p[o + i] + p[o + r]) * u[o + i];
                cv[o + i] = 0.5 * (p[o + i] + p[up + i]) * v[o + i];
                z[o + i] = (4 / dx * (v[o + r] - v[o + i] - u[up + i] + u[o + i]))
                    / (p[o + i] + p[o + r] + p[up + i] + p[up + r]);
                h[o + i] = p[o + i] + 0.25 * (u[o + i] * u[o + i] + u[o + r] * u[o + r] + v[o + i] * v[o + i]
                    + v[up + i] * v[up + i]);
            }
        }
        double t = s ? 2 * dt : dt;
        for (int j = 0; j < n; j++) {
            int o = j * n, up = (j + 1) % n * n;
            for (int i = 0; i < n; i++) {
                int r = i + 1 == n ? 0 : i + 1;
                unew[o + i] = uold[o + i] + t / 8 * (z[up + i] + z[o + i]) * (cv[o + r] + cv[o + i] + cv[up + i])
                    - t / dx * (h[o + r] - h[o + i]);
                vnew[o + i] = vold[o + i] - t / 8 * (z[o + r] + z[o + i]) * (cu[up + i] + cu[o + i] + cu[o + r])
                    - t / dx * (h[up + i] - h[o + i]);
                pnew[o + i] = pold[o + i] - t / dx * (cu[o + r] - cu[o + i]) - t / dx * (cv[up + i] - cv[o + i]);
            }
        }
        for (int k = 0; k < n * n; k++) {
            uold[k] = u[k] + alpha * (unew[k] - 2 * u[k] + uold[k]);
            vold[k] = v[k] + alpha * (vnew[k] - 2 * v[k] + vold[k]);
            pold[k] = p[k] + alpha * (pnew[k] - 2 * p[k] + pold[k]);
            u[k] = unew[k];
            v[k] = vnew[k];
            p[k] = pnew[k];
        }
    }
    printf("%g\n", p[n + 1]);
    return 0;
}
