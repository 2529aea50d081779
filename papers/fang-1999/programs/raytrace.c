/* An isosurface in a volume of N x N x N bytes, looked for along WIDTH x WIDTH rays that go through it plane by plane: the
 * surface is in a cell if the value lies between the least and the greatest of its eight corners (Parker et al. 1998).
 * raytrace N WIDTH */
#include <stdio.h>
#include <stdlib.h>

enum { ISO = 150 };

static inline __attribute__((always_inline)) int min(int a, int b) { return a < b ? a : b; }
static inline __attribute__((always_inline)) int max(int a, int b) { return a > b ? a : b; }

/* Where the surface cuts the cell, by the middle of each side: a point between both, in 256ths. */
static int depth_in(const unsigned char *cell, long row, long plane)
{
    int front = (cell[0] + cell[1] + cell[row] + cell[row + 1]) / 4;
    int back = (cell[plane] + cell[plane + 1] + cell[plane + row] + cell[plane + row + 1]) / 4;
    return back == front ? 128 : (ISO - front) * 256 / (back - front);
}

int main(int argc, char **argv)
{
    long n = atoi(argv[1]), width = atoi(argv[2]), plane = n * n;
    unsigned char *volume = malloc(plane * n);
    /* Waves on a slope; every page is written, but not every voxel: what lies between is empty. */
    for (long z = 0; z < n; z++)
        for (long y = 0; y < n; y += 4)
            for (long x = 0; x < n; x += 64)
                volume[z * plane + y * n + x] = (x * 3 + y + (z & 31)) * 255 / (5 * n);
    unsigned long sum = 0;
    for (long v = 0; v < width; v++)
        for (long u = 0; u < width; u++) {
            /* From a corner of the screen, away from it. */
            double x = (double)u * (n - 1) / width, y = (double)v * (n - 1) / width;
            for (long z = 0; z + 1 < n; z++) {
                const unsigned char *cell = volume + z * plane + (long)y * n + (long)x;
                const unsigned char *below = cell + n, *behind = cell + plane, *last = behind + n;
                int least = min(min(min(cell[0], cell[1]), min(below[0], below[1])),
                                min(min(behind[0], behind[1]), min(last[0], last[1])));
                int greatest = max(max(max(cell[0], cell[1]), max(below[0], below[1])),
                                   max(max(behind[0], behind[1]), max(last[0], last[1])));
                if (least < ISO && ISO <= greatest) {
                    sum += z * 256 + depth_in(cell, n, plane);
                    break;
                }
                if ((x += 0.38) >= n - 1)
                    x -= n - 1;
                if ((y += 0.24) >= n - 1)
                    y -= n - 1;
            }
        }
    printf("%lu\n", sum);
    return 0;
}
