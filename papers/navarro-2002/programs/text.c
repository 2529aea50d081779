/* Text to compress, the same in every run: made-up words by Zipf's law, in sentences, so many bytes of it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 6000 };

static uint64_t seed = 42;
static uint32_t chance(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 20) % below;
}

int main(int count, char **words)
{
    static char dictionary[WORDS][14];
    static double upto[WORDS];
    long bytes = count > 1 ? atol(words[1]) : 1000000, sum = 0;
    double all = 0;
    for (int i = 0; i < WORDS; i++) {
        int syllables = 1 + chance(5);
        for (int k = 0; k < syllables; k++) {
            dictionary[i][2 * k] = "bcdfghklmnprstvwz"[chance(17)];
            dictionary[i][2 * k + 1] = "aeiouy"[chance(6)];
        }
        upto[i] = all += 1.0 / (i + 1);
    }
    while (sum < bytes) {
        double where = all * chance(1 << 24) / (1 << 24);
        int low = 0, high = WORDS - 1;
        while (low < high) {
            int middle = (low + high) / 2;
            if (upto[middle] < where)
                low = middle + 1;
            else
                high = middle;
        }
        sum += printf("%s%s", dictionary[low], chance(9) ? " " : chance(4) ? ".\n" : ", ");
    }
    return 0;
}
