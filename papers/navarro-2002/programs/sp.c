/* SP of the NAS Parallel Benchmarks (Navarro et al. 2002, section 6.2), class W: its 38 arrays of 37 x 37 x 37 doubles in
 * one block, of which 36 x 36 x 36 are used, and its sweeps in its order of loops. Each step computes right-hand sides by
 * differences in three directions, then solves scalar pentadiagonal systems along x, y and z, between products with
 * matrices of five by five at each point. The coefficients are simpler than SP's. Usage: sp STEPS */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 36, PAD = N + 1 };
typedef double field[PAD][PAD][PAD];

static struct {
    field u[5], us, vs, ws, qs, ainv, rho_i, speed, square, rhs[5], forcing[5], lhs[15];
} f;

#define EACH(first, last) \
    for (int k = first; k < last; k++) for (int j = first; j < last; j++) for (int i = first; i < last; i++)

/* The neighbour of a point at a distance in a direction. */
#define AT(array, d, by) (array)[k + ((d) == 2) * (by)][j + ((d) == 1) * (by)][i + ((d) == 0) * (by)]
#define HERE(array) (array)[k][j][i]

static void fluxes(int d, field wind, double t)
{
    EACH(1, N - 1) {
        double w = HERE(wind), up = AT(wind, d, 1), um = AT(wind, d, -1);
        double push = 0.4 * (AT(f.u[4], d, 1) - AT(f.square, d, 1) - AT(f.u[4], d, -1) + AT(f.square, d, -1));
        for (int m = 0; m < 5; m++)
            HERE(f.rhs[m]) += 0.75 * t * (AT(f.u[m], d, 1) - 2 * HERE(f.u[m]) + AT(f.u[m], d, -1));
        HERE(f.rhs[0]) -= t * (AT(f.u[d + 1], d, 1) - AT(f.u[d + 1], d, -1));
        field *velocity[3] = { &f.us, &f.vs, &f.ws };
        for (int m = 0; m < 3; m++)
            HERE(f.rhs[m + 1]) += t * (AT(*velocity[m], d, 1) - 2 * HERE(*velocity[m]) + AT(*velocity[m], d, -1))
                - t * (AT(f.u[m + 1], d, 1) * up - AT(f.u[m + 1], d, -1) * um);
        HERE(f.rhs[d + 1]) -= t * push;
        HERE(f.rhs[4]) += t * (AT(f.qs, d, 1) - 2 * HERE(f.qs) + AT(f.qs, d, -1)) + t * (up * up - 2 * w * w + um * um)
            + t * (AT(f.u[4], d, 1) * AT(f.rho_i, d, 1) - 2 * HERE(f.u[4]) * HERE(f.rho_i))
            + t * (AT(f.u[4], d, -1) * AT(f.rho_i, d, -1) - (1.4 * AT(f.u[4], d, 1) - 0.4 * AT(f.square, d, 1)) * up)
            + t * (1.4 * AT(f.u[4], d, -1) - 0.4 * AT(f.square, d, -1)) * um;
    }
    for (int m = 0; m < 5; m++)
        EACH(2, N - 2)
            HERE(f.rhs[m]) -= 0.1 * t * (AT(f.u[m], d, -2) - 4 * AT(f.u[m], d, -1) + 6 * HERE(f.u[m])
                - 4 * AT(f.u[m], d, 1) + AT(f.u[m], d, 2));
}

static void right_hand_sides(double t)
{
    EACH(0, N) {
        double inverse = 1 / HERE(f.u[0]);
        HERE(f.rho_i) = inverse;
        HERE(f.us) = HERE(f.u[1]) * inverse;
        HERE(f.vs) = HERE(f.u[2]) * inverse;
        HERE(f.ws) = HERE(f.u[3]) * inverse;
        HERE(f.square) = 0.5 * (HERE(f.u[1]) * HERE(f.us) + HERE(f.u[2]) * HERE(f.vs) + HERE(f.u[3]) * HERE(f.ws));
        HERE(f.qs) = HERE(f.square) * inverse;
        double sound = sqrt(0.56 * inverse * fabs(HERE(f.u[4]) - HERE(f.square)));
        HERE(f.speed) = sound;
        HERE(f.ainv) = 1 / (sound + 1e-9);
    }
    for (int m = 0; m < 5; m++)
        EACH(0, N)
            HERE(f.rhs[m]) = HERE(f.forcing[m]);
    fluxes(0, f.us, t);
    fluxes(1, f.vs, t);
    fluxes(2, f.ws, t);
    for (int m = 0; m < 5; m++)
        EACH(1, N - 1)
            HERE(f.rhs[m]) *= t;
}

/* SP's txinvr and tzetar at the ends of a step. */
static void turn(int back)
{
    EACH(1, N - 1) {
        double r[5], c = HERE(f.speed), a = HERE(f.ainv), x = HERE(f.us), y = HERE(f.vs), z = HERE(f.ws), q = HERE(f.qs);
        for (int m = 0; m < 5; m++)
            r[m] = HERE(f.rhs[m]);
        double t = 0.4 * a * (q * r[0] - x * r[1] - y * r[2] - z * r[3] + r[4]), s = 0.1 * HERE(f.rho_i) * (x * r[0] - r[1]);
        HERE(f.rhs[0]) = r[0] - 0.1 * t;
        HERE(f.rhs[1]) = r[1] + (back ? s : -s);
        HERE(f.rhs[2]) = r[2] + 0.1 * (z * r[0] - r[3]) * a;
        HERE(f.rhs[3]) = r[3] - s + 0.1 * t;
        HERE(f.rhs[4]) = back ? r[4] + 0.01 * c * t + 0.01 * HERE(f.u[4]) : r[4] + s + 0.1 * t;
    }
}

/* SP's ninvr and pinvr between the sweeps. */
static void mix(void)
{
    EACH(1, N - 1) {
        double a = HERE(f.rhs[0]), b = HERE(f.rhs[1]), c = HERE(f.rhs[2]), d = HERE(f.rhs[3]), e = HERE(f.rhs[4]);
        double t = 0.7 * c, s = 0.5 * (d + e);
        HERE(f.rhs[0]) = -b;
        HERE(f.rhs[1]) = a;
        HERE(f.rhs[2]) = 0.7 * (d - e);
        HERE(f.rhs[3]) = -t + s;
        HERE(f.rhs[4]) = t + s;
    }
}

/* Coefficients from one line at a time, then of the two groups with the speed of sound. */
static void coefficients(int d, field wind, double t)
{
    static double cv[PAD], rho[PAD];
    for (int a = 1; a < N - 1; a++)
        for (int b = 1; b < N - 1; b++) {
#define LINE(array, at) (*(d == 0 ? &(array)[a][b][at] : d == 1 ? &(array)[a][at][b] : &(array)[at][a][b]))
            for (int at = 0; at < N; at++) {
                double r = 0.1 * LINE(f.rho_i, at);
                cv[at] = LINE(wind, at);
                rho[at] = r > 0.75 ? r : 0.75;
            }
            for (int at = 1; at < N - 1; at++) {
                LINE(f.lhs[0], at) = 0;
                LINE(f.lhs[1], at) = -t * cv[at - 1] - t * rho[at - 1];
                LINE(f.lhs[2], at) = 1 + 2 * t * rho[at];
                LINE(f.lhs[3], at) = t * cv[at + 1] - t * rho[at + 1];
                LINE(f.lhs[4], at) = 0;
            }
        }
    EACH(1, N - 1) {
        HERE(f.lhs[0]) += 0.1 * t;
        HERE(f.lhs[1]) -= 0.4 * t;
        HERE(f.lhs[2]) += 0.6 * t;
        HERE(f.lhs[3]) -= 0.4 * t;
        HERE(f.lhs[4]) += 0.1 * t;
    }
    EACH(1, N - 1) {
        double minus = t * AT(f.speed, d, -1), plus = t * AT(f.speed, d, 1);
        for (int m = 5; m <= 10; m += 5) {
            double sign = m == 5 ? 1 : -1;
            HERE(f.lhs[m]) = HERE(f.lhs[0]);
            HERE(f.lhs[m + 1]) = HERE(f.lhs[1]) - sign * minus;
            HERE(f.lhs[m + 2]) = HERE(f.lhs[2]);
            HERE(f.lhs[m + 3]) = HERE(f.lhs[3]) + sign * plus;
            HERE(f.lhs[m + 4]) = HERE(f.lhs[4]);
        }
    }
}

/* Forward elimination and back-substitution along d. Loops go over k, j and i, whatever the direction. */
static void solve(int d)
{
    int end[3] = { N - 1, N - 1, N - 1 };
    end[d] = N - 2;
    for (int g = 0; g < 15; g += 5) {
        int first = g == 0 ? 0 : g / 5 + 2, last = g == 0 ? 3 : g / 5 + 3;
        field *l = &f.lhs[g];
        for (int k = d != 2; k < end[2]; k++)
            for (int j = d != 1; j < end[1]; j++)
                for (int i = d != 0; i < end[0]; i++) {
                    double factor = 1 / (HERE(l[2]) ? HERE(l[2]) : 1);
                    HERE(l[3]) *= factor;
                    HERE(l[4]) *= factor;
                    for (int m = first; m < last; m++)
                        HERE(f.rhs[m]) *= factor;
                    AT(l[2], d, 1) -= AT(l[1], d, 1) * HERE(l[3]);
                    AT(l[3], d, 1) -= AT(l[1], d, 1) * HERE(l[4]);
                    for (int m = first; m < last; m++)
                        AT(f.rhs[m], d, 1) -= AT(l[1], d, 1) * HERE(f.rhs[m]);
                    AT(l[1], d, 2) -= AT(l[0], d, 2) * HERE(l[3]);
                    AT(l[2], d, 2) -= AT(l[0], d, 2) * HERE(l[4]);
                    for (int m = first; m < last; m++)
                        AT(f.rhs[m], d, 2) -= AT(l[0], d, 2) * HERE(f.rhs[m]);
                }
    }
    int from[3] = { N - 2, N - 2, N - 2 };
    from[d] = N - 3;
    for (int g = 0; g < 15; g += 5) {
        int first = g == 0 ? 0 : g / 5 + 2, last = g == 0 ? 3 : g / 5 + 3;
        field *l = &f.lhs[g];
        for (int a = from[2]; a >= 0; a--)
            for (int b = from[1]; b >= 0; b--)
                for (int c = from[0]; c >= 0; c--) {
                    /* Only the direction of the sweep goes backwards. */
                    int k = d == 2 ? a : from[2] - a, j = d == 1 ? b : from[1] - b, i = d == 0 ? c : from[0] - c;
                    for (int m = first; m < last; m++)
                        HERE(f.rhs[m]) -= HERE(l[3]) * AT(f.rhs[m], d, 1) + HERE(l[4]) * AT(f.rhs[m], d, 2);
                }
    }
}

int main(int count, char **words)
{
    int steps = count > 1 ? atoi(words[1]) : 2;
    double t = 0.0015;
    for (int m = 0; m < 5; m++)
        EACH(0, N) {
            int p = (k * N + j) * N + i;
            HERE(f.u[m]) = (m ? 0.1 : 1) + (double)(p * (m + 3) % 17) / 1700 + (m == 4);
            HERE(f.forcing[m]) = (double)((p + m) % 5) / 1e5;
        }
    /* SP sets all coefficients at first, those at the boundary for good. */
    for (int m = 0; m < 15; m++)
        EACH(0, N)
            HERE(f.lhs[m]) = m % 5 == 2;
    while (steps-- > 0) {
        right_hand_sides(t);
        turn(0);
        coefficients(0, f.us, t);
        solve(0);
        mix();
        coefficients(1, f.vs, t);
        solve(1);
        mix();
        coefficients(2, f.ws, t);
        solve(2);
        turn(1);
        for (int m = 0; m < 5; m++)
            EACH(1, N - 1)
                HERE(f.u[m]) += HERE(f.rhs[m]);
    }
    printf("%g\n", f.u[4][N / 2][N / 2][N / 2]);
    return 0;
}
