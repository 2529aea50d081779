/* A binomial filter of order 129 down 32 columns of a colour image of 1024 rows of 1024 pixels, four bytes each: each new
 * pixel is a sum over 129 rows, a page apart. (With the paper's misses, 32 x 896 x 129, no other reading of "32 x 1024"
 * agrees.) Pixels are read and added by functions of a small image library. filter COLUMNS */
#include <stdio.h>
#include <stdlib.h>

enum { ORDER = 129, SIDE = 1024, BYTES = 4 };

typedef struct { int width, height; unsigned char *bytes; } Image;
typedef struct { double r, g, b, a; } Colour;

static Image image(int width, int height)
{
    return (Image) { width, height, calloc((size_t)width * height, BYTES) };
}

/* The pixel, or the nearest one within the image. */
static Colour pixel(const Image *of, int x, int y)
{
    x = x < 0 ? 0 : x < of->width ? x : of->width - 1;
    y = y < 0 ? 0 : y < of->height ? y : of->height - 1;
    const unsigned char *at = of->bytes + ((size_t)y * of->width + x) * BYTES;
    return (Colour) { at[0], at[1], at[2], at[3] };
}

static void paint(Image *on, int x, int y, const Colour *colour)
{
    unsigned char *at = on->bytes + ((size_t)y * on->width + x) * BYTES;
    at[0] = colour->r, at[1] = colour->g, at[2] = colour->b, at[3] = colour->a;
}

static void add(Colour *sum, const Colour *colour, double weight)
{
    sum->r += weight * colour->r;
    sum->g += weight * colour->g;
    sum->b += weight * colour->b;
    sum->a += weight * colour->a;
}

int main(int argc, char **argv)
{
    int columns = atoi(argv[1]);
    Image in = image(SIDE, SIDE), out = image(SIDE, SIDE);
    double weight[ORDER] = { 1 };
    for (int n = 1; n < ORDER; n++)
        for (int k = n; k >= 0; k--)
            weight[k] = (weight[k] + (k ? weight[k - 1] : 0)) / 2;
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < columns; x++)
            paint(&in, x, y, &(Colour) { x & 255, y & 255, (x ^ y) & 255, 255 });
    for (int x = 0; x < columns; x++)
        for (int y = ORDER / 2; y + ORDER / 2 < SIDE; y++) {
            Colour sum = { 0 };
            for (int k = 0; k < ORDER; k++) {
                Colour colour = pixel(&in, x, y + k - ORDER / 2);
                add(&sum, &colour, weight[k]);
            }
            paint(&out, x, y, &sum);
        }
    Colour middle = pixel(&out, 0, SIDE / 2);
    printf("%g\n", middle.g);
    return 0;
}
