/* Betweenness centrality as GAP has it: Brandes 2001 from one vertex a trial, level by level; the search down notes by a bit for
 * each edge which neighbours come next, and the way back adds up what depends on whom. Scores are sums over the trials, in
 * relation to the greatest. Arguments: graph.h. */
#include "graph.h"
#include <math.h>

enum { AT_ONCE = 4096, MOST_LEVELS = 4096 };

static int32_t *depth;
static double *paths;
static float *score, *depends;
static uint64_t *follows; /* a bit for each edge */
static uint32_t *queue;
static uint64_t level[MOST_LEVELS + 2], next_tail;
static int levels, current;

static void clear(int thread)
{
    uint64_t from, to;
    (void)thread;
    while (block(vertices, &from, &to))
        for (uint64_t v = from; v < to; v++) {
            depth[v] = -1;
            paths[v] = 0;
            depends[v] = 0;
        }
}

static void clear_bits(int thread)
{
    uint64_t from, to;
    (void)thread;
    while (block(row[vertices] / 64 + 1, &from, &to))
        memset(follows + from, 0, (to - from) * 8);
}

static void add(double *to, double what)
{
    double old = *to, sum;
    do
        sum = old + what;
    while (!__atomic_compare_exchange(to, &old, &sum, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

static void down(int thread)
{
    uint32_t found[AT_ONCE];
    uint64_t from, to, n = 0, first = level[current];
    (void)thread;
    while (block(level[current + 1] - first, &from, &to))
        for (uint64_t i = first + from; i < first + to; i++) {
            uint32_t u = queue[i];
            for (uint64_t k = row[u]; k < row[u + 1]; k++) {
                uint32_t v = near[k];
                int32_t old = __atomic_load_n(&depth[v], __ATOMIC_RELAXED);
                if (old == -1
                    && __atomic_compare_exchange_n(&depth[v], &old, current + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
                    found[n++] = v;
                    old = current + 1;
                    if (n == AT_ONCE) {
                        memcpy(queue + __atomic_fetch_add(&next_tail, n, __ATOMIC_RELAXED), found, sizeof found);
                        n = 0;
                    }
                }
                if (old == current + 1) {
                    __atomic_fetch_or(&follows[k / 64], 1ull << k % 64, __ATOMIC_RELAXED);
                    add(&paths[v], paths[u]);
                }
            }
        }
    memcpy(queue + __atomic_fetch_add(&next_tail, n, __ATOMIC_RELAXED), found, n * sizeof *found);
}

static void back(int thread)
{
    uint64_t from, to, first = level[current];
    (void)thread;
    while (block(level[current + 1] - first, &from, &to))
        for (uint64_t i = first + from; i < first + to; i++) {
            uint32_t u = queue[i];
            float sum = 0;
            for (uint64_t k = row[u]; k < row[u + 1]; k++)
                if (follows[k / 64] >> k % 64 & 1)
                    sum += paths[u] / paths[near[k]] * (1 + depends[near[k]]);
            depends[u] = sum;
            score[u] += sum;
        }
}

static void from_one(uint32_t source)
{
    parallel(clear);
    parallel(clear_bits);
    depth[source] = 0;
    paths[source] = 1;
    queue[0] = source;
    level[0] = 0;
    level[1] = next_tail = 1;
    for (current = 0; level[current + 1] > level[current]; current++) {
        if (current == MOST_LEVELS)
            exit(2);
        parallel(down);
        level[current + 2] = next_tail;
    }
    levels = current;
    for (current = levels - 1; current >= 0; current--)
        parallel(back);
}

static void in_relation(void)
{
    float most = 0;
    for (uint32_t v = 0; v < vertices; v++)
        most = score[v] > most ? score[v] : most;
    for (uint32_t v = 0; most > 0 && v < vertices; v++)
        score[v] /= most;
}

/* Brandes without levels or bits: a queue, and for each vertex from the last to the first, all neighbours nearer to the source. */
static uint64_t check(void)
{
    double *sum = get(vertices * sizeof *sum), *sigma = get(vertices * sizeof *sigma), *delta = get(vertices * sizeof *delta);
    int32_t *far = get(vertices * sizeof *far);
    uint32_t *plain = get(vertices * sizeof *plain);
    double most = 0;
    uint64_t wrong = 0;
    memset(sum, 0, vertices * sizeof *sum);
    for (int trial = 0; trial < trials; trial++) {
        uint32_t source = some_vertex(trial);
        uint64_t first = 0, last = 1;
        for (uint32_t v = 0; v < vertices; v++)
            sigma[v] = delta[v] = 0, far[v] = -1;
        far[source] = 0;
        sigma[source] = 1;
        plain[0] = source;
        while (first < last) {
            uint32_t u = plain[first++];
            for (uint64_t k = row[u]; k < row[u + 1]; k++) {
                if (far[near[k]] < 0) {
                    far[near[k]] = far[u] + 1;
                    plain[last++] = near[k];
                }
                if (far[near[k]] == far[u] + 1)
                    sigma[near[k]] += sigma[u];
            }
        }
        while (last--) {
            uint32_t w = plain[last];
            for (uint64_t k = row[w]; k < row[w + 1]; k++)
                if (far[near[k]] == far[w] - 1)
                    delta[near[k]] += sigma[near[k]] / sigma[w] * (1 + delta[w]);
            sum[w] += delta[w];
        }
    }
    for (uint32_t v = 0; v < vertices; v++)
        most = sum[v] > most ? sum[v] : most;
    for (uint32_t v = 0; v < vertices; v++)
        wrong += fabs(sum[v] / most - score[v]) > 1e-4;
    free(plain);
    free(far);
    free(delta);
    free(sigma);
    free(sum);
    return wrong;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    depth = get(vertices * sizeof *depth);
    paths = get(vertices * sizeof *paths);
    score = get(vertices * sizeof *score);
    depends = get(vertices * sizeof *depends);
    queue = get(vertices * sizeof *queue);
    follows = get((row[vertices] / 64 + 1) * 8);
    memset(score, 0, vertices * sizeof *score);
    for (int trial = 0; trial < trials; trial++)
        from_one(some_vertex(trial));
    in_relation();
    printf("%d levels\n", levels);
    return finish(checking ? check() : 0);
}
