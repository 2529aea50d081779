/* The radix sort of SPLASH-2 by one processor: KEYS keys below 524288, by two digits of 1024. As there, a key is the mean of
 * four numbers of NPB's generator, in floating point; that is most of the work. radix KEYS */
#include <stdio.h>
#include <stdlib.h>

enum { RADIX = 1024, DIGIT = 10, MOST = 524288 };
static const double HALF = 8388608.0, WHOLE = 70368744177664.0, FACTOR = 1220703125.0;

static int *from, *to;
static int rank[RADIX], first[RADIX];

/* The product modulo 2^46, of numbers that are split into halves of 23 bits. */
static double product(double x, double y)
{
    double x1 = (double)(long)(x / HALF), x2 = x - x1 * HALF;
    double y1 = (double)(long)(y / HALF), y2 = y - y1 * HALF;
    double middle = x1 * y2 + x2 * y1;
    double low = (middle - (double)(long)(middle / HALF) * HALF) * HALF + x2 * y2;
    return low - (double)(long)(low / WHOLE) * WHOLE;
}

static void make(int keys)
{
    double x = 314159265.0;
    for (int i = 0; i < keys; i++) {
        double sum = 0;
        for (int k = 0; k < 4; k++) {
            x = product(x, FACTOR);
            sum += x / WHOLE;
        }
        from[i] = (int)(sum / 4 * MOST);
    }
}

static void pass(int keys, int shift)
{
    for (int digit = 0; digit < RADIX; digit++)
        rank[digit] = 0;
    for (int i = 0; i < keys; i++)
        rank[from[i] >> shift & (RADIX - 1)]++;
    first[0] = 0;
    for (int digit = 1; digit < RADIX; digit++)
        first[digit] = first[digit - 1] + rank[digit - 1];
    for (int i = 0; i < keys; i++) {
        int digit = from[i] >> shift & (RADIX - 1);
        to[first[digit]] = from[i];
        first[digit]++;
    }
}

int main(int argc, char **argv)
{
    int keys = atoi(argv[1]);
    from = malloc(keys * sizeof *from);
    to = malloc(keys * sizeof *to);
    make(keys);
    for (int shift = 0; MOST >> shift > 1; shift += DIGIT) {
        pass(keys, shift);
        int *other = from;
        from = to;
        to = other;
    }
    for (int i = 1; i < keys; i++)
        if (from[i - 1] > from[i])
            return 1;
    printf("%d sorted\n", keys);
    return 0;
}
