/* Conjugate gradient with a random sparse matrix: of NPB's class A, ROWS = 14000 with some 130 numbers each.
   cga ROWS NUMBERS STEPS */
#include <stdio.h>
#include <stdlib.h>

static unsigned long seed = 314159265;
static unsigned next(void) { return (seed = seed * 6364136223846793005ul + 1442695040888963407ul) >> 33; }

int main(int argc, char **argv) {
    int n = atoi(argv[1]), per = atoi(argv[2]), steps = atoi(argv[3]);
    double *a = malloc(sizeof *a * n * per), *x = malloc(sizeof *x * n);
    int *column = malloc(sizeof *column * n * per);
    double *p = malloc(sizeof *p * n), *q = malloc(sizeof *q * n), *r = malloc(sizeof *r * n);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < per; k++) {
            column[i * per + k] = k ? (int)(next() % n) : i;
            a[i * per + k] = k ? 0.5 / per : 2.0;
        }
        x[i] = 0;
        r[i] = p[i] = 1;
    }
    double rho = n;
    for (int step = 0; step < steps; step++) {
        double pq = 0, new_rho = 0;
        for (int i = 0; i < n; i++) {
            double sum = 0;
            for (int k = i * per; k < (i + 1) * per; k++)
                sum += a[k] * p[column[k]];
            q[i] = sum;
        }
        for (int i = 0; i < n; i++)
            pq += p[i] * q[i];
        double alpha = rho / pq;
        for (int i = 0; i < n; i++) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
            new_rho += r[i] * r[i];
        }
        for (int i = 0; i < n; i++)
            p[i] = r[i] + new_rho / rho * p[i];
        rho = new_rho;
    }
    printf("%g\n", rho);
    return 0;
}
