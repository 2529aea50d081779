/* NPB CG: conjugate gradients on a random sparse matrix, rows of so many entries.
 *     cg ROWS ENTRIES_A_ROW ITERATIONS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t seed = 314159265;

static double next(void)
{
    /* NPB's randlc: a = 5^13 modulo 2^46. */
    seed = seed * 1220703125 & ((1ull << 46) - 1);
    return seed * (1.0 / (1ull << 46));
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    int rows = atoi(argv[1]), per = atoi(argv[2]), iterations = atoi(argv[3]);
    double *a = malloc(sizeof *a * rows * per);
    int *column = malloc(sizeof *column * rows * per);
    double *x = malloc(rows * sizeof *x), *r = malloc(rows * sizeof *r), *p = malloc(rows * sizeof *p),
           *q = malloc(rows * sizeof *q);
    for (int i = 0; i < rows; i++) {
        column[(long)i * per] = i;
        a[(long)i * per] = 2 * per;
        for (int k = 1; k < per; k++) {
            column[(long)i * per + k] = next() * rows;
            a[(long)i * per + k] = next() - 0.5;
        }
        x[i] = 0;
        r[i] = p[i] = 1;
    }
    double rho = rows;
    for (int it = 0; it < iterations; it++) {
        double d = 0, next_rho = 0;
        for (int i = 0; i < rows; i++) {
            double sum = 0;
            for (int k = 0; k < per; k++)
                sum += a[(long)i * per + k] * p[column[(long)i * per + k]];
            q[i] = sum;
            d += sum * p[i];
        }
        double alpha = rho / d;
        for (int i = 0; i < rows; i++) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
            next_rho += r[i] * r[i];
        }
        double beta = next_rho / rho;
        rho = next_rho;
        for (int i = 0; i < rows; i++)
            p[i] = r[i] + beta * p[i];
    }
    printf("%g\n", rho);
}
