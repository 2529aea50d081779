// Real work of several kinds: work NAME, where NAME is join, tree, sort, sparse, transpose, stencil, search or strings. Prints a
// checksum. Each takes some tenths of a second and tens of megabytes.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 88172645463325252;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void *memory(size_t bytes) {
    void *block = malloc(bytes);
    if (!block) {
        fputs("out of memory\n", stderr);
        exit(1);
    }
    return block;
}

// A hash join: a table of one relation with open addressing, probed with the other.
static uint64_t join(void) {
    enum { BITS = 22, BUILD = 1 << 21, PROBE = 3 << 20 };
    uint64_t(*table)[2] = memory(sizeof(*table) << BITS), sum = 0;
    memset(table, 0, sizeof(*table) << BITS);
    for (uint64_t i = 1; i <= BUILD; i++) {
        uint64_t at = i * 0x9E3779B97F4A7C15 >> (64 - BITS);
        while (table[at][0]) at = (at + 1) & ((1 << BITS) - 1);
        table[at][0] = i;
        table[at][1] = next();
    }
    for (int i = 0; i < PROBE; i++) {
        uint64_t key = next() % (2 * BUILD) + 1, at = key * 0x9E3779B97F4A7C15 >> (64 - BITS);
        while (table[at][0] && table[at][0] != key) at = (at + 1) & ((1 << BITS) - 1);
        sum += table[at][1];
    }
    return sum;
}

// A binary search tree of single nodes: insertions of random keys, then look-ups.
static uint64_t tree(void) {
    struct Node {
        uint64_t key, value;
        struct Node *child[2];
    } *root = NULL;
    uint64_t sum = 0;
    for (int i = 0; i < 300000; i++) {
        struct Node *node = memory(sizeof *node), **at = &root;
        *node = (struct Node){next(), i, {NULL, NULL}};
        while (*at) at = &(*at)->child[node->key > (*at)->key];
        *at = node;
    }
    for (int i = 0; i < 300000; i++) {
        uint64_t key = next();
        for (struct Node *at = root; at; at = at->child[key > at->key]) sum += at->value;
    }
    return sum;
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// The sort of the C library, on random words.
static uint64_t sort(void) {
    enum { N = 2 << 20 };
    uint64_t *words = memory(N * sizeof *words);
    for (int i = 0; i < N; i++) words[i] = next();
    qsort(words, N, sizeof *words, compare);
    return words[N / 2];
}

// Products of a sparse matrix, rows compressed, with a vector.
static uint64_t sparse(void) {
    enum { ROWS = 1 << 20, EACH = 8 };
    uint32_t *column = memory(sizeof(uint32_t) * ROWS * EACH);
    double *value = memory(sizeof(double) * ROWS * EACH), *x = memory(sizeof(double) * ROWS);
    double *y = memory(sizeof(double) * ROWS);
    for (int i = 0; i < ROWS * EACH; i++) column[i] = next() % ROWS, value[i] = 1.0 / (1 + i % 97);
    for (int i = 0; i < ROWS; i++) x[i] = i % 31;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < ROWS; i++) {
            double sum = 0;
            for (int j = 0; j < EACH; j++) sum += value[i * EACH + j] * x[column[i * EACH + j]];
            y[i] = sum;
        }
        double *other = x;
        x = y;
        y = other;
    }
    return (uint64_t)x[ROWS / 2];
}

// Plain transpositions of a square matrix.
static uint64_t transpose(void) {
    enum { N = 3000 };
    double *from = memory(sizeof(double) * N * N), *to = memory(sizeof(double) * N * N);
    for (int i = 0; i < N * N; i++) from[i] = i;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) to[(size_t)j * N + i] = from[(size_t)i * N + j];
        double *other = from;
        from = to;
        to = other;
    }
    return (uint64_t)from[N];
}

// Seven-point averages on a cube.
static uint64_t stencil(void) {
    enum { N = 160 };
    float *from = memory(sizeof(float) * N * N * N), *to = memory(sizeof(float) * N * N * N);
    for (int i = 0; i < N * N * N; i++) from[i] = to[i] = i % 101;
    for (int round = 0; round < 30; round++) {
        for (int z = 1; z < N - 1; z++)
            for (int y = 1; y < N - 1; y++)
                for (int x = 1; x < N - 1; x++) {
                    float *at = from + ((size_t)z * N + y) * N + x;
                    to[at - from] = (at[0] + at[1] + at[-1] + at[N] + at[-N] + at[N * N] + at[-N * N]) / 7;
                }
        float *other = from;
        from = to;
        to = other;
    }
    return (uint64_t)from[N * N * N / 2];
}

// A breadth-first search of a random graph.
static uint64_t search(void) {
    enum { VERTICES = 1 << 20, DEGREE = 8 };
    uint32_t *edge = memory(sizeof(uint32_t) * VERTICES * DEGREE), *queue = memory(sizeof(uint32_t) * VERTICES);
    int32_t *depth = memory(sizeof(int32_t) * VERTICES);
    uint64_t sum = 0;
    for (int i = 0; i < VERTICES * DEGREE; i++) edge[i] = next() % VERTICES;
    for (int i = 0; i < VERTICES; i++) depth[i] = -1;
    uint32_t head = 0, tail = 1;
    queue[0] = 0;
    depth[0] = 0;
    while (head < tail) {
        uint32_t at = queue[head++];
        sum += depth[at];
        for (int j = 0; j < DEGREE; j++) {
            uint32_t to = edge[(size_t)at * DEGREE + j];
            if (depth[to] < 0) {
                depth[to] = depth[at] + 1;
                queue[tail++] = to;
            }
        }
    }
    return sum;
}

// Words of a text, counted in chains of a table.
static uint64_t strings(void) {
    enum { CHAINS = 1 << 16, WORDS = 1 << 20 };
    struct Word {
        struct Word *next;
        uint64_t count;
        char text[];
    } **chains = calloc(CHAINS, sizeof *chains);
    uint64_t most = 0;
    if (!chains) exit(1);
    for (int i = 0; i < WORDS; i++) {
        char text[24];
        uint64_t rank = next() % 400000;
        snprintf(text, sizeof text, "word%llu", (unsigned long long)(rank * rank / 400000));
        uint32_t hash = 2166136261;
        for (char *c = text; *c; c++) hash = (hash ^ (unsigned char)*c) * 16777619;
        struct Word **at = &chains[hash % CHAINS];
        while (*at && strcmp((*at)->text, text)) at = &(*at)->next;
        if (!*at) {
            *at = memory(sizeof **at + strlen(text) + 1);
            (*at)->next = NULL;
            (*at)->count = 0;
            strcpy((*at)->text, text);
        }
        if (++(*at)->count > most) most = (*at)->count;
    }
    return most;
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        uint64_t (*run)(void);
    } ALL[] = {{"join", join},       {"tree", tree},           {"sort", sort},     {"sparse", sparse},
               {"transpose", transpose}, {"stencil", stencil}, {"search", search}, {"strings", strings}};
    for (size_t i = 0; count == 2 && i < sizeof ALL / sizeof *ALL; i++)
        if (!strcmp(words[1], ALL[i].name)) return printf("%llu\n", (unsigned long long)ALL[i].run()), 0;
    fputs("expected the name of some work\n", stderr);
    return 2;
}
