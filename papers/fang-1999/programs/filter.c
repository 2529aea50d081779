/* A binomial filter of order 129 down 32 columns of a colour image of 1024 rows of 1024 pixels, four bytes each: each new
   pixel is a sum over 129 rows, a page apart. (With the paper's misses, 32 x 896 x 129, no other reading of "32 x 1024"
   agrees.) filter COLUMNS */
#include <stdio.h>
#include <stdlib.h>

enum { ORDER = 129, SIDE = 1024 };

typedef struct { unsigned char r, g, b, a; } Pixel;

int main(int argc, char **argv) {
    int columns = atoi(argv[1]);
    Pixel *in = malloc(sizeof *in * SIDE * SIDE), *out = calloc(SIDE * SIDE, sizeof *out);
    double weight[ORDER] = {1};
    for (int n = 1; n < ORDER; n++)
        for (int k = n; k >= 0; k--)
            weight[k] = (weight[k] + (k ? weight[k - 1] : 0)) / 2;
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < columns; x++)
            in[y * SIDE + x] = (Pixel){x, y, x ^ y, 255};
    for (int x = 0; x < columns; x++)
        for (int y = ORDER / 2; y + ORDER / 2 < SIDE; y++) {
            double r = 0, g = 0, b = 0;
            const Pixel *from = in + (y - ORDER / 2) * SIDE + x;
            for (int k = 0; k < ORDER; k++, from += SIDE) {
                r += weight[k] * from->r;
                g += weight[k] * from->g;
                b += weight[k] * from->b;
            }
            out[y * SIDE + x] = (Pixel){r, g, b, 255};
        }
    printf("%d\n", out[SIDE * SIDE / 2].g);
    return 0;
}
