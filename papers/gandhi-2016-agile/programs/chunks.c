// Stands in for dedup: reads a stream in buffers of its own, each mapped and unmapped, cuts it into chunks by its
// contents, and looks each chunk up in a table of 64 MB.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BUFFER = 1 << 18, BUFFERS = 400, SLOTS = 1 << 23 };

static uint64_t state = 88172645463325252;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

int main(void) {
    uint64_t *table = calloc(SLOTS, sizeof *table), unique = 0;
    if (!table) return 1;
    for (uint64_t at = 0; at < SLOTS; at += 512) table[at] = 1;
    for (int number = 0; number < BUFFERS; number++) {
        uint64_t *buffer = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (buffer == MAP_FAILED) return 1;
        for (size_t at = 0; at < BUFFER / 8; at += 4) {
            uint64_t word = next();
            buffer[at] = buffer[at + 1] = word;
            buffer[at + 2] = buffer[at + 3] = word >> 32;
        }
        uint64_t hash = 0;
        for (size_t at = 0; at < BUFFER / 8; at++) {
            hash = (hash ^ buffer[at]) * 0x9E3779B97F4A7C15;
            // A chunk ends where the hash says so, every 128 words on average.
            if (hash >> 57) continue;
            uint64_t *slot = &table[hash * 0x9E3779B97F4A7C15 >> 41];
            unique += *slot != hash;
            *slot = hash;
        }
        munmap(buffer, BUFFER);
    }
    printf("%lu\n", (unsigned long)unique);
    return 0;
}
