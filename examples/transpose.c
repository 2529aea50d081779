/* Transposes a matrix the plain way: each load of the inner loop is on another page. */
#include <stdio.h>
#include <stdlib.h>

enum { N = 1500 };

static double *matrix(void)
{
    return malloc(sizeof(double) * N * N);
}

static void transpose(double *to, const double *from)
{
    for (long i = 0; i < N; i++)
        for (long j = 0; j < N; j++)
            to[i * N + j] = from[j * N + i];
}

int main(void)
{
    double *a = matrix(), *b = matrix();
    for (long i = 0; i < N * N; i++)
        a[i] = i;
    for (int times = 0; times < 4; times++)
        transpose(b, a);
    printf("%g\n", b[1]);
}
