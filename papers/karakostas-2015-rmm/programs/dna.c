/* Random DNA in FASTA, and a relative of it with a change every so many bases.
 *     dna BASES EVERY REFERENCE QUERY */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    long bases = atol(argv[1]), every = atol(argv[2]);
    FILE *reference = fopen(argv[3], "w"), *query = fopen(argv[4], "w");
    uint64_t state = 9;
    fprintf(reference, ">reference\n");
    fprintf(query, ">query\n");
    for (long i = 0; i < bases; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        int base = "ACGT"[state >> 62], other = "ACGT"[state >> 60 & 3];
        putc(base, reference);
        putc(i % every ? base : other, query);
        if (i % 70 == 69)
            putc('\n', reference), putc('\n', query);
    }
    return fclose(reference) | fclose(query);
}
