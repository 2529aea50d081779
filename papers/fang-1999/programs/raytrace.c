/* An isosurface of a volume of N x N x N bytes, seen along rays that go through it voxel by voxel. raytrace N WIDTH */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int n = atoi(argv[1]), width = atoi(argv[2]);
    size_t plane = (size_t)n * n;
    unsigned char *volume = malloc(plane * n);
    /* Waves on a slope; every page is written, but not every voxel: what lies between is empty. */
    for (int z = 0; z < n; z++)
        for (int y = 0; y < n; y += 4)
            for (int x = 0; x < n; x += 64)
                volume[z * plane + (size_t)y * n + x] = (x * 3 + y + (z & 31)) * 255 / (5 * n);
    unsigned long sum = 0;
    for (int v = 0; v < width; v++)
        for (int u = 0; u < width; u++) {
            /* From a corner of the screen, away from it; in steps of a voxel along z. */
            long x = (long)u * n * 256 / width, y = (long)v * n * 256 / width, dx = 97, dy = -61;
            for (int z = 0; z < n; z++) {
                unsigned char here = volume[z * plane + (size_t)(y >> 8 & (n - 1)) * n + (x >> 8 & (n - 1))];
                if (here > 150) {
                    sum += here + z;
                    break;
                }
                x += dx;
                y += dy;
            }
        }
    printf("%lu\n", sum);
    return 0;
}
