/* What the five graph programs share (GAP benchmark suite, Beamer, Asanovic and Patterson 2015): threads, graphs of 2^SCALE
 * vertices with 16 edges each, drawn uniformly (urand) or by R-MAT with A, B, C = .57, .19, .19 and ids shuffled (kron), made
 * symmetric and laid out in compressed rows, sorted, without loops and doubles. All arrays come from malloc.
 *     PROGRAM urand|kron SCALE [TRIALS [THREADS]] [--check]
 *     PROGRAM FILE [TRIALS [THREADS]] [--check]
 * FILE is a graph that was made before (graph.c), which is soon in memory. With --check the answer is compared with one found in another, plainer way; the exit status is 1 when they differ. */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EDGES = 16, MOST_THREADS = 64, BLOCK = 1024 };

/* Threads: `parallel` runs a function on all of them, each with its number; between calls they wait. */

static int threads = 1;
static struct {
    pthread_mutex_t lock;
    pthread_cond_t start, end;
    void (*run)(int);
    unsigned round;
    int busy, over;
} pool = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, 0 };
static pthread_t helper[MOST_THREADS];

static void *help(void *number)
{
    unsigned seen = 0;
    for (;;) {
        pthread_mutex_lock(&pool.lock);
        while (pool.round == seen && !pool.over)
            pthread_cond_wait(&pool.start, &pool.lock);
        seen = pool.round;
        int over = pool.over;
        pthread_mutex_unlock(&pool.lock);
        if (over)
            return 0;
        pool.run((int)(intptr_t)number);
        pthread_mutex_lock(&pool.lock);
        if (!--pool.busy)
            pthread_cond_signal(&pool.end);
        pthread_mutex_unlock(&pool.lock);
    }
}

static void start_threads(int wanted)
{
    threads = wanted < 1 ? 1 : wanted > MOST_THREADS ? MOST_THREADS : wanted;
    for (intptr_t i = 1; i < threads; i++)
        if (pthread_create(&helper[i], 0, help, (void *)i))
            exit(2);
}

static void end_threads(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.over = 1;
    pthread_cond_broadcast(&pool.start);
    pthread_mutex_unlock(&pool.lock);
    for (int i = 1; i < threads; i++)
        pthread_join(helper[i], 0);
}

static uint64_t block_next;

static void parallel(void (*run)(int))
{
    block_next = 0;
    pthread_mutex_lock(&pool.lock);
    pool.run = run;
    pool.busy = threads - 1;
    pool.round++;
    pthread_cond_broadcast(&pool.start);
    pthread_mutex_unlock(&pool.lock);
    run(0);
    pthread_mutex_lock(&pool.lock);
    while (pool.busy)
        pthread_cond_wait(&pool.end, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

/* The next block of 0..n for the thread that asks; 0 when there is none. */
static int block(uint64_t n, uint64_t *from, uint64_t *to)
{
    *from = __atomic_fetch_add(&block_next, BLOCK, __ATOMIC_RELAXED);
    *to = *from + BLOCK < n ? *from + BLOCK : n;
    return *from < n;
}

static void *get(uint64_t bytes)
{
    void *at = malloc(bytes ? bytes : 1);
    if (!at) {
        fprintf(stderr, "no memory for %llu bytes\n", (unsigned long long)bytes);
        exit(2);
    }
    return at;
}

/* Numbers at random: the same for the same place, whoever draws them. */
static uint64_t draw(uint64_t place)
{
    uint64_t z = (place + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* The graph. */

static uint32_t vertices;
static uint64_t *row; /* where the neighbours of each vertex begin; of the one behind the last, where they end */
static uint32_t *near;

static int kron, scale;
static uint32_t (*edge)[2], *shuffled;

static uint64_t degree(uint32_t v)
{
    return row[v + 1] - row[v];
}

static void draw_edges(int thread)
{
    uint64_t from, to;
    (void)thread;
    while (block((uint64_t)vertices * EDGES, &from, &to))
        for (uint64_t e = from; e < to; e++) {
            uint32_t a = 0, b = 0;
            if (!kron) {
                uint64_t both = draw(e);
                a = (both >> 32) & (vertices - 1);
                b = both & (vertices - 1);
            } else {
                uint64_t random = 0;
                for (int bit = 0; bit < scale; bit++, random >>= 16) {
                    /* Four bits of the edge from each number drawn. */
                    if (bit % 4 == 0)
                        random = draw(e * 16 + bit / 4);
                    uint32_t part = random & 0xffff;
                    a = a << 1 | (part >= 49807);
                    b = b << 1 | ((part >= 37356 && part < 49807) || part >= 62259);
                }
                a = shuffled[a];
                b = shuffled[b];
            }
            edge[e][0] = a;
            edge[e][1] = b;
            __atomic_fetch_add(&row[a + 1], 1, __ATOMIC_RELAXED);
            __atomic_fetch_add(&row[b + 1], 1, __ATOMIC_RELAXED);
        }
}

static uint64_t *filled;

static void fill_rows(int thread)
{
    uint64_t from, to;
    (void)thread;
    while (block((uint64_t)vertices * EDGES, &from, &to))
        for (uint64_t e = from; e < to; e++) {
            uint32_t a = edge[e][0], b = edge[e][1];
            near[__atomic_fetch_add(&filled[a], 1, __ATOMIC_RELAXED)] = b;
            near[__atomic_fetch_add(&filled[b], 1, __ATOMIC_RELAXED)] = a;
        }
}

__attribute__((unused)) static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* What is put where rows say, vertex after vertex, stands there in the order of vertices: rows sorted, since edges go both ways.
 * `renamed` gives vertices other numbers, which `row` is for already; without it they keep theirs. */
static uint32_t *sorted_rows(const uint64_t *row_then, const uint32_t *old_of, const uint32_t *renamed)
{
    uint32_t *sorted = get(row[vertices] * sizeof *sorted);
    filled = get(vertices * sizeof *filled);
    memcpy(filled, row, vertices * sizeof *filled);
    for (uint32_t v = 0; v < vertices; v++) {
        uint32_t old = old_of ? old_of[v] : v;
        for (uint64_t k = row_then[old]; k < row_then[old + 1]; k++)
            sorted[filled[renamed ? renamed[near[k]] : near[k]]++] = v;
    }
    free(filled);
    return sorted;
}

static void make_graph(void)
{
    uint64_t edges = (uint64_t)vertices * EDGES;
    edge = get(edges * sizeof *edge);
    row = get((vertices + 1ull) * sizeof *row);
    memset(row, 0, (vertices + 1ull) * sizeof *row);
    if (kron) {
        shuffled = get(vertices * sizeof *shuffled);
        for (uint32_t v = 0; v < vertices; v++) {
            uint32_t other = draw(~(uint64_t)v) % (v + 1);
            shuffled[v] = shuffled[other];
            shuffled[other] = v;
        }
    }
    parallel(draw_edges);
    free(shuffled);
    for (uint32_t v = 0; v < vertices; v++)
        row[v + 1] += row[v];
    near = get(2 * edges * sizeof *near);
    filled = get(vertices * sizeof *filled);
    memcpy(filled, row, vertices * sizeof *filled);
    parallel(fill_rows);
    free(edge);
    free(filled);
    uint32_t *sorted = sorted_rows(row, 0, 0);
    free(near);
    near = sorted;
    /* Doubles and loops go, in place. */
    uint64_t at = 0, first = 0;
    for (uint32_t v = 0; v < vertices; v++) {
        uint64_t last = row[v + 1], start = at;
        for (; first < last; first++)
            if (near[first] != v && (at == start || near[first] != near[at - 1]))
                near[at++] = near[first];
        row[v] = start;
    }
    row[vertices] = at;
}

/* Copies a part of a file, little of which is ever in memory twice. */
static int load(int file, uint64_t from, void *to, uint64_t bytes)
{
    enum { PART = 1 << 20 };
    while (bytes) {
        uint64_t before = from % 4096, part = bytes < PART ? bytes : PART;
        char *at = mmap(0, before + part, PROT_READ, MAP_PRIVATE, file, from - before);
        if (at == MAP_FAILED)
            return 0;
        memcpy(to, at + before, part);
        munmap(at, before + part);
        to = (char *)to + part;
        from += part;
        bytes -= part;
    }
    return 1;
}

/* A graph's file: the number of vertices in eight bytes, `row`, `near`. */
static int load_graph(const char *name)
{
    struct stat stat;
    uint64_t count = 0, rows, edges;
    int file = open(name, O_RDONLY);
    if (file < 0 || fstat(file, &stat) || read(file, &count, sizeof count) != sizeof count)
        return 0;
    rows = (count + 1) * sizeof *row;
    if (count < 1 || count > 1u << 30 || sizeof count + rows > (uint64_t)stat.st_size)
        return 0;
    vertices = count;
    row = get(rows);
    edges = stat.st_size - sizeof count - rows;
    near = get(edges);
    return load(file, sizeof count, row, rows) && row[count] * sizeof *near == edges
        && load(file, sizeof count + rows, near, edges) && !close(file);
}

/* A vertex with neighbours, at random. */
__attribute__((unused)) static uint32_t some_vertex(int trial)
{
    for (uint64_t i = 0;; i++) {
        uint32_t v = draw(~0ull / 3 + ((uint64_t)trial << 32) + i) & (vertices - 1);
        if (degree(v))
            return v;
    }
}

static int trials = 1, checking;

static void begin(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[argc - 1], "--check"))
        checking = 1, argc--;
    kron = argc > 1 && !strcmp(argv[1], "kron");
    int makes = kron || (argc > 1 && !strcmp(argv[1], "urand")), next = makes ? 3 : 2;
    scale = makes && argc > 2 ? atoi(argv[2]) : 0;
    if (makes ? scale < 1 || scale > 30 : argc < 2 || !load_graph(argv[1])) {
        fprintf(stderr, "usage: %s urand|kron SCALE [TRIALS [THREADS]] [--check], or a graph's FILE\n", argv[0]);
        exit(2);
    }
    trials = argc > next ? atoi(argv[next]) : 1;
    start_threads(argc > next + 1 ? atoi(argv[next + 1]) : 1);
    if (makes) {
        vertices = 1u << scale;
        make_graph();
    }
}

/* Ends the program; `wrong` says how many answers were. */
static int finish(uint64_t wrong)
{
    end_threads();
    if (checking)
        printf("%s\n", wrong ? "wrong" : "right");
    return wrong != 0;
}
