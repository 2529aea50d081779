/* GUPS (HPC Challenge RandomAccess): read-modify-write of random words of a table.
 *     gups MEGABYTES UPDATES */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    uint64_t words = strtoull(argv[argc > 2 ? 1 : 0], 0, 10) << 17, updates = strtoull(argv[2], 0, 10);
    uint64_t *table = malloc(words * 8), random = 1;
    for (uint64_t i = 0; i < words; i += 8)
        table[i] = i;
    for (uint64_t i = 0; i < updates; i++) {
        random = random << 1 ^ (random >> 63 ? 7 : 0);
        table[(random * 0x9e3779b97f4a7c15 >> 20) % words] ^= random;
    }
    printf("%llu\n", (unsigned long long)table[random % words]);
}
