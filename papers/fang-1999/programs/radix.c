/* Integer radix sort of SPLASH-2: KEYS keys below 2^19, 1024 at a time. radix KEYS */
#include <stdio.h>
#include <stdlib.h>

#define RADIX 1024
#define MOST 524288

int main(int argc, char **argv) {
    int n = atoi(argv[1]);
    int *from = malloc(n * sizeof *from), *to = malloc(n * sizeof *to);
    double seed = 314159265.0;
    for (int i = 0; i < n; i++) {
        seed = seed * 1220703125.0;
        seed -= 70368744177664.0 * (double)(long)(seed / 70368744177664.0);
        from[i] = (int)(seed / 70368744177664.0 * MOST);
    }
    for (int shift = 0; MOST >> shift > 1; shift += 10) {
        int rank[RADIX] = {0}, sum = 0;
        for (int i = 0; i < n; i++)
            rank[from[i] >> shift & (RADIX - 1)]++;
        for (int r = 0; r < RADIX; r++) {
            int count = rank[r];
            rank[r] = sum;
            sum += count;
        }
        for (int i = 0; i < n; i++)
            to[rank[from[i] >> shift & (RADIX - 1)]++] = from[i];
        int *other = from;
        from = to;
        to = other;
    }
    for (int i = 1; i < n; i++)
        if (from[i - 1] > from[i])
            return 1;
    printf("%d sorted\n", n);
    return 0;
}
