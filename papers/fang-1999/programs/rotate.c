/* A colour image of 1024 x 1024 pixels, a plane of words for each colour, turned clockwise by one radian about its middle:
   every new pixel is fetched from where it was. rotate ROWS */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 1024, COLOURS = 3 };

int main(int argc, char **argv) {
    int rows = atoi(argv[1]);
    int *in[COLOURS], *out[COLOURS];
    for (int k = 0; k < COLOURS; k++) {
        in[k] = malloc(sizeof(int) * SIDE * SIDE);
        out[k] = malloc(sizeof(int) * SIDE * SIDE);
        for (int i = 0; i < SIDE * SIDE; i += 16)
            in[k][i] = i ^ k;
    }
    long c = cos(1) * 65536, s = sin(1) * 65536, middle = SIDE / 2;
    for (int y = (SIDE - rows) / 2; y < (SIDE + rows) / 2; y++)
        for (int x = 0; x < SIDE; x++) {
            long u = (((x - middle) * c - (y - middle) * s) >> 16) + middle;
            long v = (((x - middle) * s + (y - middle) * c) >> 16) + middle;
            int inside = u >= 0 && v >= 0 && u < SIDE && v < SIDE;
            for (int k = 0; k < COLOURS; k++)
                out[k][y * SIDE + x] = inside ? in[k][v * SIDE + u] : 0;
        }
    printf("%d\n", out[0][SIDE * SIDE / 2]);
    return 0;
}
