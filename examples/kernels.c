// Small kernels of known behaviour, for `reach-kernels`: NAME BYTES ROUNDS huge|base|silent runs rounds over memory on pages of
// 2 MB or 4 KB, and prints the nanoseconds of the shortest round, start and first touch left out; `silent` is `huge` without that.
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

// The same through eight lines of each page, page after page: what a line takes where few walks are needed and
// neighbours are not asked for.
static void pages(uint64_t *words, size_t n) {
    size_t page = 4096 / 8, count = n / page;
    uint32_t *order = malloc(count * sizeof *order);
    uint64_t x = 88172645463325252;
    if (!order) exit(1);
    for (size_t i = 0; i < count; i++) {
        size_t other = (x = next(x)) % (i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    size_t at = 0;
    for (size_t i = 0; i < count * 8; i++) {
        size_t to = order[(i + 1) / 8 % count] * page + ((i + 1) * 5 % 8 * 8 + order[(i + 1) / 8 % count] % 8) * LINE;
        if (i == 0) at = order[0] * page + order[0] % 8 * LINE;
        words[at] = to;
        at = to;
    }
    words[0] = words[0] ? words[0] : order[0] * page + order[0] % 8 * LINE;
    free(order);
}

static uint64_t multiply(const uint64_t *words, size_t n, uint64_t at) {
    (void)words, (void)n;
    for (int i = 0; i < STEPS; i++) __asm__ volatile("imul %0, %0" : "+r"(at));
    return at;
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
    {"chase", list, chase},  {"random", count, scattered}, {"pages", pages, chase}, {"multiply", count, multiply},
};

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    size_t bytes = strtoull(argv[2], 0, 10), align = 2 << 20, n = bytes / 8;
    char *got = mmap(0, bytes + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) return 1;
    uint64_t *words = (uint64_t *)(((uintptr_t)got + align - 1) & ~(uintptr_t)(align - 1));
    if (madvise(words, bytes, strcmp(argv[4], "base") ? MADV_HUGEPAGE : MADV_NOHUGEPAGE)) return 1;
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        if (strcmp(kernels[k].name, argv[1])) continue;
        kernels[k].init(words, n);
        volatile uint64_t at = 0;
        long long least = -1;
        for (int round = atoi(argv[3]); round > 0; round--) {
            struct timespec from, to;
            clock_gettime(CLOCK_MONOTONIC, &from);
            at = kernels[k].round(words, n, at);
            clock_gettime(CLOCK_MONOTONIC, &to);
            long long took = (to.tv_sec - from.tv_sec) * 1000000000LL + to.tv_nsec - from.tv_nsec;
            if (least < 0 || took < least) least = took;
        }
        if (strcmp(argv[4], "silent")) printf("%lld\n", least);
        return 0;
    }
    return 2;
}
