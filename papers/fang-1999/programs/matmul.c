/* Tiled product of N x N matrices of doubles, tiles of 32 x 32: the first TILES of the tiles of the second factor.
   matmul N TILES */
#include <stdio.h>
#include <stdlib.h>

#define TILE 32

int main(int argc, char **argv) {
    int n = atoi(argv[1]), tiles = atoi(argv[2]);
    double *a = malloc(sizeof *a * n * n), *b = malloc(sizeof *b * n * n), *c = calloc((size_t)n * n, sizeof *c);
    for (size_t i = 0; i < (size_t)n * n; i += n / 8) {
        a[i] = i % 7;
        b[i] = i % 5;
    }
    for (int jj = 0; jj < n; jj += TILE)
        for (int kk = 0; kk < n; kk += TILE) {
            if (tiles-- == 0)
                goto done;
            for (int i = 0; i < n; i++)
                for (int j = jj; j < jj + TILE; j++) {
                    double sum = c[i * n + j];
                    for (int k = kk; k < kk + TILE; k++)
                        sum += a[i * n + k] * b[k * n + j];
                    c[i * n + j] = sum;
                }
        }
done:
    printf("%g\n", c[n + 1]);
    return 0;
}
