// Random updates of 32 MB at one end of a mapping, and one in 64 of the rest of it, 256 MB.
// Usage: hot high|low UPDATES. The mapping has no huge page before it is advised, after every page has been written.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE = 2 << 20, HOT = 32 << 20, COLD = 256 << 20 };

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    // An aligned start, so that the whole of it can have huge pages.
    char *room = mmap(NULL, HOT + COLD + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) return 1;
    char *first = (char *)(((uintptr_t)room + HUGE - 1) & -(uintptr_t)HUGE);
    for (size_t at = 0; at < HOT + COLD; at += 4096) first[at] = 1;
    if (madvise(first, HOT + COLD, MADV_HUGEPAGE)) return 1;
    int high = !strcmp(argv[1], "high");
    uint64_t *hot = (uint64_t *)(high ? first + COLD : first), *cold = (uint64_t *)(high ? first : first + HOT);
    uint64_t state = 88172645463325252;
    for (long left = atol(argv[2]); left > 0; left--) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if (state >> 58 == 0) cold[state % (COLD / 8)] ^= state;
        else hot[state % (HOT / 8)] ^= state;
    }
    printf("%llu\n", (unsigned long long)(hot[1] ^ cold[1]));
    return 0;
}
