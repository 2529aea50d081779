/* Connected components as GAP has them: Afforest (Sutton, Ben-Nun and Barak, IPDPS 2018), which links each vertex with its
 * first two neighbours, guesses the largest component from a sample, and links the rest of those that are not in it.
 * Arguments: graph.h. */
#include "graph.h"

enum { ROUNDS = 2, SAMPLE = 1024 };

static uint32_t *component, largest;
static int link_round;

static uint32_t of(uint32_t v)
{
    return __atomic_load_n(&component[v], __ATOMIC_RELAXED);
}

static void join(uint32_t u, uint32_t v)
{
    uint32_t a = of(u), b = of(v);
    while (a != b) {
        uint32_t high = a > b ? a : b, low = a > b ? b : a, above = of(high);
        if (above == low)
            return;
        if (above == high
            && __atomic_compare_exchange_n(&component[high], &above, low, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return;
        a = of(of(high));
        b = of(low);
    }
}

static void alone(int thread)
{
    uint64_t from, to;
    (void)thread;
    while (block(vertices, &from, &to))
        for (uint64_t v = from; v < to; v++)
            component[v] = v;
}

static void first_links(int thread)
{
    uint64_t from, to;
    (void)thread;
    while (block(vertices, &from, &to))
        for (uint64_t v = from; v < to; v++)
            if (row[v] + link_round < row[v + 1])
                join(v, near[row[v] + link_round]);
}

static void compress(int thread)
{
    uint64_t from, to;
    (void)thread;
    while (block(vertices, &from, &to))
        for (uint64_t v = from; v < to; v++)
            while (of(v) != of(of(v)))
                __atomic_store_n(&component[v], of(of(v)), __ATOMIC_RELAXED);
}

static void other_links(int thread)
{
    uint64_t from, to;
    (void)thread;
    while (block(vertices, &from, &to))
        for (uint64_t v = from; v < to; v++)
            if (of(v) != largest)
                for (uint64_t k = row[v] + ROUNDS; k < row[v + 1]; k++)
                    join(v, near[k]);
}

/* The component that most of a sample are in. */
static uint32_t most_frequent(void)
{
    uint32_t sample[SAMPLE], best = 0, most = 0;
    for (int i = 0; i < SAMPLE; i++)
        sample[i] = component[draw(~0ull / 5 + i) & (vertices - 1)];
    qsort(sample, SAMPLE, sizeof *sample, by_number);
    for (uint32_t i = 0, run = 0; i < SAMPLE; i++) {
        run = i && sample[i] == sample[i - 1] ? run + 1 : 1;
        if (run > most)
            most = run, best = sample[i];
    }
    return best;
}

static void components(void)
{
    parallel(alone);
    for (link_round = 0; link_round < ROUNDS; link_round++) {
        parallel(first_links);
        parallel(compress);
    }
    largest = most_frequent();
    parallel(other_links);
    parallel(compress);
}

static uint32_t root(uint32_t *up, uint32_t v)
{
    while (up[v] != v)
        v = up[v] = up[up[v]];
    return v;
}

/* Union-find over all edges: two vertices have one component there if and only if they have one here. */
static uint64_t check(void)
{
    uint32_t *up = get(vertices * sizeof *up), *same = get(vertices * sizeof *same);
    uint64_t wrong = 0, ours = 0, theirs = 0;
    for (uint32_t v = 0; v < vertices; v++)
        up[v] = v, same[v] = ~0u;
    for (uint32_t v = 0; v < vertices; v++)
        for (uint64_t k = row[v]; k < row[v + 1]; k++)
            up[root(up, v)] = root(up, near[k]);
    for (uint32_t v = 0; v < vertices; v++) {
        uint32_t r = root(up, v);
        if (same[r] == ~0u)
            same[r] = component[v];
        wrong += same[r] != component[v];
        ours += component[v] == v;
        theirs += r == v;
    }
    free(same);
    free(up);
    return wrong + (ours != theirs);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    uint64_t wrong = 0, count = 0;
    component = get(vertices * sizeof *component);
    for (int trial = 0; trial < trials; trial++) {
        components();
        if (checking)
            wrong += check();
    }
    for (uint32_t v = 0; v < vertices; v++)
        count += component[v] == v;
    printf("%llu components\n", (unsigned long long)count);
    return finish(wrong);
}
