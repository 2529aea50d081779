// Visits to every second page of an area, so that none of its reservations is ever full. A visit reads four words of a page and writes one.
// Usage: holes MEGABYTES list|random|order VISITS. A list is followed from page to page; the other pages are chosen without waiting for one.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { WORDS = 1024 };  // 8 KB: a page, and one that is never touched

static uint64_t state = 88172645463325252;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    size_t bytes = strtoul(argv[1], NULL, 10) << 20, count = bytes / (8 * WORDS);
    uint64_t *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint32_t *order = malloc(count * sizeof *order);
    if (area == MAP_FAILED || !order) return 1;
    for (size_t at = 0; at < count; at++) order[at] = (uint32_t)at;
    // One cycle through all of them (Sattolo).
    for (size_t at = count - 1; at > 0; at--) {
        size_t other = next() % at;
        uint32_t kept = order[at];
        order[at] = order[other];
        order[other] = kept;
    }
    for (size_t at = 0; at < count; at++) area[at * WORDS] = order[at];
    char kind = argv[2][0];
    uint64_t sum = 0;
    size_t at = 0;
    for (long left = atol(argv[3]); left > 0; left--) {
        uint64_t *page = area + at * WORDS, *word = page + 8 * (left % 48);
        at = kind == 'l' ? page[0] : kind == 'r' ? next() % count : (at + 1) % count;
        sum += word[1] + word[2] + word[3];
        word[4] = sum;
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
