/* Hash join: builds a table of 32 MB, and probes it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
struct entry { uint64_t key, value; };
int main(void) {
    uint64_t slots = 1 << 21, mask = slots - 1, found = 0, x = 1;
    struct entry *table = calloc(slots, sizeof *table);
    if (!table) return 1;
    for (uint64_t i = 0; i < slots / 4; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        uint64_t key = x >> 20 | 1, at = (key * 0x9e3779b97f4a7c15u >> 40) & mask;
        while (table[at].key) at = (at + 1) & mask;
        table[at] = (struct entry){key, i};
    }
    x = 1;
    for (uint64_t i = 0; i < slots / 8; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        uint64_t key = x >> 20 | 1, at = (key * 0x9e3779b97f4a7c15u >> 40) & mask;
        while (table[at].key && table[at].key != key) at = (at + 1) & mask;
        found += table[at].key == key;
    }
    printf("%lu\n", (unsigned long)found);
    return 0;
}
