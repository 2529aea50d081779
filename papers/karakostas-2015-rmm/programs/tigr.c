/* Like tigr of BioBench: overlaps between the fragments of a sequence, found by a hash table of words of ten bases and compared.
 *     tigr FRAGMENTS LENGTH */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct hit {
    uint32_t fragment, at;
    struct hit *next;
};

enum { WORD = 11, BUCKETS = 1 << 22 };

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    uint32_t fragments = atoi(argv[1]), length = atoi(argv[2]);
    uint64_t state = 13, total = (uint64_t)fragments * length / 4, score = 0;
    char *genome = malloc(total + length), **fragment = malloc(fragments * sizeof *fragment);
    struct hit **bucket = calloc(BUCKETS, sizeof *bucket);
    for (uint64_t i = 0; i < total + length; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        genome[i] = state >> 62;
    }
    for (uint32_t f = 0; f < fragments; f++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        uint64_t from = (state >> 20) % total;
        fragment[f] = malloc(length);
        for (uint32_t i = 0; i < length; i++)
            fragment[f][i] = genome[from + i];
        for (uint32_t i = 0; i + WORD <= length; i += WORD / 2) {
            uint32_t word = 0;
            for (int k = 0; k < WORD; k++)
                word = word << 2 | fragment[f][i + k];
            int seen = 0;
            for (struct hit *hit = bucket[word]; hit && seen < 4; hit = hit->next, seen++) {
                const char *other = fragment[hit->fragment];
                uint32_t n = 0;
                while (n < 32 && i + n < length && hit->at + n < length && fragment[f][i + n] == other[hit->at + n])
                    n++;
                score += n;
            }
            struct hit *hit = malloc(sizeof *hit);
            *hit = (struct hit){ f, i, bucket[word] };
            bucket[word] = hit;
        }
    }
    printf("%llu\n", (unsigned long long)score);
}
