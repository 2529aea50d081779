/* In place of SP of the NAS Parallel Benchmarks (Navarro et al. 2002, section 6.2), class W: the same number of arrays of
 * 36 x 36 x 36 doubles, laid out component by component as there, and the same sweeps: right-hand sides from
 * differences in three directions, then a scalar pentadiagonal system for each line in x, y and z. The equations are a
 * diffusion of five coupled fields, not those of Navier and Stokes. */
#include <stdio.h>
#include <stdlib.h>

enum { N = 36, ALL = N * N * N, FIELDS = 5, BANDS = 5 };

static double u[FIELDS][ALL], rhs[FIELDS][ALL], forcing[FIELDS][ALL], lhs[3 * BANDS][ALL];
static double us[ALL], vs[ALL], ws[ALL], qs[ALL], rho[ALL], speed[ALL], square[ALL];

static int at(int i, int j, int k) { return (k * N + j) * N + i; }

static void right_hand_sides(double step)
{
    for (int p = 0; p < ALL; p++) {
        double inverse = 1 / u[0][p];
        rho[p] = inverse;
        us[p] = u[1][p] * inverse;
        vs[p] = u[2][p] * inverse;
        ws[p] = u[3][p] * inverse;
        square[p] = 0.5 * (u[1][p] * us[p] + u[2][p] * vs[p] + u[3][p] * ws[p]);
        qs[p] = square[p] * inverse;
        speed[p] = 1 + qs[p];
    }
    for (int m = 0; m < FIELDS; m++)
        for (int p = 0; p < ALL; p++)
            rhs[m][p] = forcing[m][p];
    static const int far[3] = { 1, N, N * N };
    double *wind[3] = { us, vs, ws };
    for (int d = 0; d < 3; d++)
        for (int m = 0; m < FIELDS; m++)
            for (int k = 2; k < N - 2; k++)
                for (int j = 2; j < N - 2; j++)
                    for (int i = 2; i < N - 2; i++) {
                        int p = at(i, j, k), f = far[d];
                        double *x = u[m], *w = wind[d];
                        rhs[m][p] += step * (x[p + f] - 2 * x[p] + x[p - f])
                            - 0.01 * step * (x[p + f] * w[p + f] - x[p - f] * w[p - f])
                            - 0.05 * step * (x[p + 2 * f] - 4 * x[p + f] + 6 * x[p] - 4 * x[p - f] + x[p - 2 * f]);
                    }
}

/* One line after the other along direction f; the two others are a and b. Bands lie component by component. */
static void solve(int f, int a, int b, double *wind, double step)
{
    for (int y = 1; y < N - 1; y++)
        for (int z = 0; z < N; z++)
            for (int x = 1; x < N - 1; x++) {
                int p = z * f + y * b + x * a;
                double drift = 0.01 * step * wind[p], sound = 0.01 * step * speed[p];
                for (int group = 0; group < 3; group++) {
                    double more = group == 0 ? 0 : group == 1 ? sound : -sound;
                    lhs[group * BANDS + 0][p] = 0.05 * step;
                    lhs[group * BANDS + 1][p] = -step - drift - more;
                    lhs[group * BANDS + 2][p] = 1 + 3 * step;
                    lhs[group * BANDS + 3][p] = -step + drift + more;
                    lhs[group * BANDS + 4][p] = 0.05 * step;
                }
            }
    for (int group = 0; group < 3; group++) {
        double *l0 = lhs[group * BANDS], *l1 = lhs[group * BANDS + 1], *l2 = lhs[group * BANDS + 2];
        double *l3 = lhs[group * BANDS + 3], *l4 = lhs[group * BANDS + 4];
        int first = group == 0 ? 0 : group + 2, last = group == 0 ? 3 : group + 3;
        for (int y = 1; y < N - 1; y++) {
            for (int z = 0; z < N - 2; z++)
                for (int x = 1; x < N - 1; x++) {
                    int p = z * f + y * b + x * a;
                    double factor = 1 / l2[p];
                    l3[p] *= factor;
                    l4[p] *= factor;
                    for (int m = first; m < last; m++)
                        rhs[m][p] *= factor;
                    l2[p + f] -= l1[p + f] * l3[p];
                    l3[p + f] -= l1[p + f] * l4[p];
                    l1[p + 2 * f] -= l0[p + 2 * f] * l3[p];
                    l2[p + 2 * f] -= l0[p + 2 * f] * l4[p];
                    for (int m = first; m < last; m++) {
                        rhs[m][p + f] -= l1[p + f] * rhs[m][p];
                        rhs[m][p + 2 * f] -= l0[p + 2 * f] * rhs[m][p];
                    }
                }
            for (int z = N - 3; z >= 0; z--)
                for (int x = 1; x < N - 1; x++) {
                    int p = z * f + y * b + x * a;
                    for (int m = first; m < last; m++)
                        rhs[m][p] -= l3[p] * rhs[m][p + f] + l4[p] * rhs[m][p + 2 * f];
                }
        }
    }
}

int main(int count, char **words)
{
    int steps = count > 1 ? atoi(words[1]) : 2;
    double step = 0.0015;
    for (int m = 0; m < FIELDS; m++)
        for (int p = 0; p < ALL; p++) {
            u[m][p] = 1 + (double)((p * (m + 3)) % 17) / 170;
            forcing[m][p] = (double)((p + m) % 5) / 1e5;
        }
    while (steps-- > 0) {
        right_hand_sides(step);
        solve(1, N, N * N, us, step);
        solve(N, 1, N * N, vs, step);
        solve(N * N, 1, N, ws, step);
        for (int m = 0; m < FIELDS; m++)
            for (int p = 0; p < ALL; p++)
                u[m][p] += 0.1 * step * rhs[m][p];
    }
    printf("%g\n", u[4][ALL / 2]);
    return 0;
}
