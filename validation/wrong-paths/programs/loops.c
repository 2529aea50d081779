// Loops that show what a core does behind a mispredicted branch: loops KIND SIZE PASSES, where KIND is
//   table   looks random places of a table of 2^SIZE words up, and branches at random on what it finds
//   search  searches a tree of up to 2^SIZE nodes for random keys; the search ends at random depths, and its branch waits for it
//   descent the same in a full tree: every search has SIZE - 1 steps
// With -dependent behind KIND, each pass needs the result of the one before. Prints cycles of the time-stamp counter a pass, of
// the best of five rounds; one round, and no time, with a last argument.

#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <x86intrin.h>

static uint64_t state = 88172645463325252;

static inline uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void *memory(size_t bytes) {
    size_t page = 2 << 20;
    void *block = aligned_alloc(page, (bytes + page - 1) / page * page);
    if (!block) {
        fputs("out of memory\n", stderr);
        exit(1);
    }
    madvise(block, bytes, MADV_HUGEPAGE);
    return block;
}

struct Node {
    uint64_t key, pad[5];
    struct Node *child[2];
};

static struct Node *pool;
static uint32_t *places, used;

// Makes a tree for the keys from `low` to `high`. With `ragged`, each of the last four levels lacks a quarter of its nodes.
static struct Node *tree(uint64_t low, uint64_t high, int levels, int ragged) {
    if (!levels || (ragged && levels <= 4 && (next() & 3) == 0)) return NULL;
    struct Node *node = pool + places[used++];
    uint64_t middle = low + (high - low) / 2;
    node->key = middle;
    node->child[0] = tree(low, middle, levels - 1, ragged);
    node->child[1] = tree(middle, high, levels - 1, ragged);
    return node;
}

static struct Node *shuffled_tree(int size, int ragged) {
    uint32_t count = 1u << size;
    pool = memory(count * sizeof *pool);
    places = memory(count * sizeof *places);
    for (uint32_t i = 0; i < count; i++) places[i] = i;
    for (uint32_t i = count - 1; i; i--) {
        uint32_t other = next() % (i + 1), place = places[i];
        places[i] = places[other];
        places[other] = place;
    }
    return tree(0, ~0ull >> 1, size, ragged);
}

static uint64_t sum;

// No value that is loaded has the highest bit set, so the keys are the same whether a pass depends on the one before or not.
static const uint64_t HIGHEST = 1ull << 63;

// Looks places of `table` up, and branches at random. A constant `dependent` makes two loops of it.
static inline __attribute__((always_inline)) void look_up(const uint64_t *table, int size, int passes, int dependent) {
    for (uint64_t i = passes, value = 0; i; i--) {
        uint64_t key = dependent ? next() ^ (value & HIGHEST) : next();
        value = table[key >> (64 - size)];
        if (value >> 20 & 1) {
            __asm__ volatile("add $7, %0" : "+r"(sum));
        } else {
            __asm__ volatile("xor $3, %0" : "+r"(sum));
        }
    }
}

// Searches the tree to its end, or for `steps` steps unless these are 0.
static inline __attribute__((always_inline)) void search(const struct Node *root, int steps, int passes, int dependent) {
    for (uint64_t i = passes, found = 0; i; i--) {
        uint64_t key = dependent ? next() >> 1 ^ (found & HIGHEST) : next() >> 1;
        const struct Node *at = root, *last = root;
        if (steps) {
            for (int step = 0; step < steps; step++) last = at = at->child[key > at->key];
        } else {
            for (; at; at = at->child[key > at->key]) last = at;
        }
        found = last->key;
        sum += found;
    }
}

int main(int count, char **words) {
    if (count < 4) return fputs("expected a kind, a size and a number of passes\n", stderr), 2;
    const char *kind = words[1];
    int size = atoi(words[2]), passes = atoi(words[3]), dependent = strstr(kind, "-dependent") != NULL;
    uint64_t *table = NULL, best = ~0ull;
    struct Node *root = NULL;
    if (kind[0] == 't') {
        table = memory(8ull << size);
        for (uint64_t i = 0; i < 1ull << size; i++) table[i] = i * 0x9E3779B97F4A7C15 >> 1;
    } else {
        root = shuffled_tree(size, kind[0] == 's');
    }
    for (int round = 0; round < (count > 4 ? 1 : 5); round++) {
        uint64_t begin = __rdtsc();
        if (kind[0] == 't') {
            dependent ? look_up(table, size, passes, 1) : look_up(table, size, passes, 0);
        } else {
            int steps = kind[0] == 's' ? 0 : size - 1;
            dependent ? search(root, steps, passes, 1) : search(root, steps, passes, 0);
        }
        uint64_t took = __rdtsc() - begin;
        if (took < best) best = took;
    }
    if (count == 4) printf("%.1f ", (double)best / passes);
    return printf("%llu\n", (unsigned long long)sum), 0;
}
