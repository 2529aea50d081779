/* Like cactusADM and GemsFDTD of SPEC 2006: sweeps over many three-dimensional grids, each in an allocation of its own, all of
 * which are read at each point.
 *     stencil SIDE GRIDS SWEEPS */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    int n = atoi(argv[1]), grids = atoi(argv[2]), sweeps = atoi(argv[3]);
    long plane = (long)n * n;
    double **grid = malloc(grids * sizeof *grid);
    for (int g = 0; g < grids; g++) {
        grid[g] = malloc(plane * n * sizeof(double));
        for (long i = 0; i < plane * n; i++)
            grid[g][i] = (i + g) % 17;
    }
    double *sum = malloc(plane * n * sizeof(double));
    for (int sweep = 0; sweep < sweeps; sweep++)
        for (int z = 1; z < n - 1; z++)
            for (int y = 1; y < n - 1; y++)
                for (int x = 1; x < n - 1; x++) {
                    /* The axes as in a Fortran loop over the wrong one: planes are crossed innermost. */
                    long i = x * plane + (long)y * n + z;
                    double s = 0;
                    for (int g = 0; g < grids; g++)
                        s += grid[g][i];
                    sum[i] = s + sum[i - plane] + sum[i + plane];
                }
    printf("%g\n", sum[plane + n + 1]);
}
