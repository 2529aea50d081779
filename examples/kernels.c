// Small kernels of known behaviour, for `reach-kernels`: NAME BYTES ROUNDS huge|base runs rounds over memory on pages of
// 2 MB or 4 KB, and prints nanoseconds, start and first touch left out.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { LINE = 8, STEPS = 1 << 20 };

static uint64_t next(uint64_t x) {
    x ^= x << 13;
    x ^= x >> 7;
    return x ^ x << 17;
}

static void count(uint64_t *words, size_t n) {
    for (size_t i = 0; i < n; i++) words[i] = i;
}

// A cycle through all lines in random order (Sattolo): each first word is where the next is.
static void list(uint64_t *words, size_t n) {
    size_t lines = n / LINE;
    uint64_t x = 88172645463325252;
    for (size_t i = 0; i < lines; i++) words[i * LINE] = i * LINE;
    for (size_t i = lines - 1; i > 0; i--) {
        x = next(x);
        size_t other = x % i * LINE;
        uint64_t word = words[i * LINE];
        words[i * LINE] = words[other];
        words[other] = word;
    }
}

static uint64_t sum(const uint64_t *words, size_t n, uint64_t at) {
    for (size_t i = 0; i < n; i++) at += words[i];
    return at;
}

// One word of each page, another line in each.
static uint64_t stride(const uint64_t *words, size_t n, uint64_t at) {
    for (int pass = 0; pass < 16; pass++)
        for (size_t i = pass * LINE; i < n; i += 4160 / 8) at += words[i];
    return at;
}

// A quarter of a square matrix, column by column.
static uint64_t columns(const uint64_t *words, size_t n, uint64_t at) {
    size_t side = 1;
    while (side * side < n) side *= 2;
    for (size_t column = 0; column < side / 4; column++)
        for (size_t row = 0; row < side / 2; row++) at += words[row * side + column];
    return at;
}

static uint64_t chase(const uint64_t *words, size_t n, uint64_t at) {
    (void)n;
    for (int i = 0; i < STEPS; i++) at = words[at];
    return at;
}

static uint64_t scattered(const uint64_t *words, size_t n, uint64_t at) {
    uint64_t x = at | 1;
    for (int i = 0; i < STEPS; i++) {
        x = next(x);
        at += words[x & (n - 1)];
    }
    return at;
}

static const struct {
    const char *name;
    void (*init)(uint64_t *, size_t);
    uint64_t (*round)(const uint64_t *, size_t, uint64_t);
} kernels[] = {
    {"sum", count, sum},     {"stride", count, stride},    {"columns", count, columns},
    {"chase", list, chase},  {"random", count, scattered},
};

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    size_t bytes = strtoull(argv[2], 0, 10), align = 2 << 20, n = bytes / 8;
    char *got = mmap(0, bytes + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) return 1;
    uint64_t *words = (uint64_t *)(((uintptr_t)got + align - 1) & ~(uintptr_t)(align - 1));
    if (madvise(words, bytes, strcmp(argv[4], "huge") ? MADV_NOHUGEPAGE : MADV_HUGEPAGE)) return 1;
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        if (strcmp(kernels[k].name, argv[1])) continue;
        kernels[k].init(words, n);
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        volatile uint64_t at = 0;
        for (int round = atoi(argv[3]); round > 0; round--) at = kernels[k].round(words, n, at);
        clock_gettime(CLOCK_MONOTONIC, &to);
        printf("%lld\n", (to.tv_sec - from.tv_sec) * 1000000000LL + to.tv_nsec - from.tv_nsec);
        return 0;
    }
    return 2;
}
