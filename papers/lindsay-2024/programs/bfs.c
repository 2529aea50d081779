/* Breadth-first search as GAP has it: direction-optimising (Beamer, Asanovic and Patterson, SC 2012), from the frontier down
 * while that is small, and from those not found yet up while it is large. Arguments: graph.h. */
#include "graph.h"

enum { ALPHA = 15, BETA = 18, AT_ONCE = 4096 };

static int32_t *parent; /* of those not found, minus their degree, or -1 */
static uint32_t *queue;
static uint64_t head, tail, next_tail, scout, awake;
static uint64_t *front, *next;

static void orphan(int thread)
{
    uint64_t from, to;
    (void)thread;
    while (block(vertices, &from, &to))
        for (uint64_t v = from; v < to; v++)
            parent[v] = degree(v) ? -(int32_t)degree(v) : -1;
}

static void down(int thread)
{
    uint32_t found[AT_ONCE];
    uint64_t from, to, n = 0, edges = 0;
    (void)thread;
    while (block(tail - head, &from, &to))
        for (uint64_t i = head + from; i < head + to; i++) {
            uint32_t u = queue[i];
            for (uint64_t k = row[u]; k < row[u + 1]; k++) {
                uint32_t v = near[k];
                int32_t old = __atomic_load_n(&parent[v], __ATOMIC_RELAXED);
                if (old < 0 && __atomic_compare_exchange_n(&parent[v], &old, (int32_t)u, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
                    found[n++] = v;
                    edges += -old;
                    if (n == AT_ONCE) {
                        memcpy(queue + __atomic_fetch_add(&next_tail, n, __ATOMIC_RELAXED), found, sizeof found);
                        n = 0;
                    }
                }
            }
        }
    memcpy(queue + __atomic_fetch_add(&next_tail, n, __ATOMIC_RELAXED), found, n * sizeof *found);
    __atomic_fetch_add(&scout, edges, __ATOMIC_RELAXED);
}

static void enter(int thread)
{
    uint64_t from, to;
    (void)thread;
    while (block(tail - head, &from, &to))
        for (uint64_t i = head + from; i < head + to; i++)
            __atomic_fetch_or(&front[queue[i] / 64], 1ull << queue[i] % 64, __ATOMIC_RELAXED);
}

/* Blocks are multiples of 64, so that no two threads write one word of `next`. */
static void up(int thread)
{
    uint64_t from, to, found = 0;
    (void)thread;
    while (block(vertices, &from, &to))
        for (uint64_t u = from; u < to; u++)
            if (parent[u] < 0)
                for (uint64_t k = row[u]; k < row[u + 1]; k++)
                    if (front[near[k] / 64] >> near[k] % 64 & 1) {
                        parent[u] = near[k];
                        next[u / 64] |= 1ull << u % 64;
                        found++;
                        break;
                    }
    __atomic_fetch_add(&awake, found, __ATOMIC_RELAXED);
}

static void leave(int thread)
{
    uint32_t found[BLOCK];
    uint64_t from, to;
    (void)thread;
    while (block(vertices, &from, &to)) {
        uint64_t n = 0;
        for (uint64_t v = from; v < to; v++)
            if (front[v / 64] >> v % 64 & 1)
                found[n++] = v;
        memcpy(queue + __atomic_fetch_add(&next_tail, n, __ATOMIC_RELAXED), found, n * sizeof *found);
    }
}

static void search(uint32_t source)
{
    uint64_t words = (vertices + 63ull) / 64, unexplored = row[vertices];
    parallel(orphan);
    parent[source] = source;
    queue[0] = source;
    head = 0;
    tail = next_tail = 1;
    scout = degree(source);
    memset(front, 0, words * 8);
    while (head < tail) {
        if ((int64_t)scout > (int64_t)unexplored / ALPHA) {
            parallel(enter);
            uint64_t before;
            awake = tail - head;
            do {
                before = awake;
                awake = 0;
                memset(next, 0, words * 8);
                parallel(up);
                uint64_t *swap = front;
                front = next;
                next = swap;
            } while (awake >= before || awake > vertices / BETA);
            /* What is in the queue has been dealt with. */
            head = tail = next_tail = 0;
            parallel(leave);
            tail = next_tail;
            scout = 1;
        } else {
            unexplored -= scout;
            scout = 0;
            parallel(down);
            head = tail;
            tail = next_tail;
        }
    }
}

/* Every parent is one step nearer to the source, as a plain search has it. */
static uint64_t check(uint32_t source)
{
    uint32_t *depth = get(vertices * sizeof *depth), *plain = get(vertices * sizeof *plain);
    uint64_t wrong = 0, first = 0, last = 1;
    memset(depth, 255, vertices * sizeof *depth);
    depth[source] = 0;
    plain[0] = source;
    while (first < last) {
        uint32_t u = plain[first++];
        for (uint64_t k = row[u]; k < row[u + 1]; k++)
            if (depth[near[k]] == ~0u) {
                depth[near[k]] = depth[u] + 1;
                plain[last++] = near[k];
            }
    }
    for (uint32_t v = 0; v < vertices; v++) {
        if ((parent[v] >= 0) != (depth[v] != ~0u)) {
            wrong++;
        } else if (parent[v] >= 0 && v != source) {
            int there = 0;
            for (uint64_t k = row[v]; k < row[v + 1]; k++)
                there |= (int32_t)near[k] == parent[v];
            wrong += !there || depth[parent[v]] + 1 != depth[v];
        }
    }
    free(plain);
    free(depth);
    return wrong;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    uint64_t words = (vertices + 63ull) / 64, wrong = 0, reached = 0;
    parent = get(vertices * sizeof *parent);
    queue = get(vertices * sizeof *queue);
    front = get(words * 8);
    next = get(words * 8);
    for (int trial = 0; trial < trials; trial++) {
        uint32_t source = some_vertex(trial);
        search(source);
        for (uint32_t v = 0; v < vertices; v++)
            reached += parent[v] >= 0;
        if (checking)
            wrong += check(source);
    }
    printf("%llu reached\n", (unsigned long long)reached);
    return finish(wrong);
}
