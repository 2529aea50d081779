/* Triangles counted as GAP counts them: each once, from its greatest vertex down, by merging sorted lists; where a sample of
 * degrees is skewed, vertices are first numbered anew by degree, the greatest first. Arguments: graph.h; behind them,
 * `--one-in N` counts only what one in N blocks of 1024 vertices would, evenly over all of them. */
#include "graph.h"

enum { SAMPLE = 1000, LEAST_DEGREE = 10 };

static uint64_t total;
static uint64_t one_in = 1;

static void count(int thread)
{
    uint64_t from, to, mine = 0;
    (void)thread;
    while (block(vertices, &from, &to))
        for (uint64_t u = from; u < to && from / BLOCK % one_in == one_in / 2; u++)
            for (uint64_t k = row[u]; k < row[u + 1] && near[k] <= u; k++) {
                uint32_t v = near[k];
                uint64_t at = row[u];
                for (uint64_t j = row[v]; j < row[v + 1] && near[j] <= v; j++) {
                    while (near[at] < near[j])
                        at++;
                    mine += near[at] == near[j];
                }
            }
    __atomic_fetch_add(&total, mine, __ATOMIC_RELAXED);
}

/* Whether to number anew: the mean of a sample is well above its median. */
static int skewed(void)
{
    uint32_t sample[SAMPLE];
    uint64_t sum = 0;
    if (row[vertices] / vertices < LEAST_DEGREE)
        return 0;
    for (int i = 0; i < SAMPLE; i++)
        sum += sample[i] = degree(draw(~0ull / 7 + i) & (vertices - 1));
    qsort(sample, SAMPLE, sizeof *sample, by_number);
    return (double)sum / SAMPLE / 1.3 > sample[SAMPLE / 2];
}

static int by_degree(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    uint64_t of_x = degree(x), of_y = degree(y);
    return of_x != of_y ? (of_x < of_y) - (of_x > of_y) : (x > y) - (x < y);
}

static void renumber(void)
{
    uint32_t *order = get(vertices * sizeof *order), *number = get(vertices * sizeof *number);
    for (uint32_t v = 0; v < vertices; v++)
        order[v] = v;
    qsort(order, vertices, sizeof *order, by_degree);
    uint64_t *row_then = row;
    row = get((vertices + 1ull) * sizeof *row);
    row[0] = 0;
    for (uint32_t v = 0; v < vertices; v++) {
        number[order[v]] = v;
        row[v + 1] = row[v] + (row_then[order[v] + 1] - row_then[order[v]]);
    }
    uint32_t *sorted = sorted_rows(row_then, order, number);
    free(near);
    near = sorted;
    free(row_then);
    free(number);
    free(order);
}

/* Counts what each vertex's neighbours have in common with it by marks; every triangle is seen six times. */
static uint64_t check(void)
{
    char *marked = get(vertices);
    uint64_t six = 0;
    memset(marked, 0, vertices);
    for (uint32_t u = 0; u < vertices; u++) {
        for (uint64_t k = row[u]; k < row[u + 1]; k++)
            marked[near[k]] = 1;
        for (uint64_t k = row[u]; k < row[u + 1]; k++)
            for (uint64_t j = row[near[k]]; j < row[near[k] + 1]; j++)
                six += marked[near[j]];
        for (uint64_t k = row[u]; k < row[u + 1]; k++)
            marked[near[k]] = 0;
    }
    free(marked);
    return six != 6 * total;
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[argc - 2], "--one-in")) {
        one_in = strtoull(argv[argc - 1], 0, 10);
        argc -= 2;
    }
    begin(argc, argv);
    if (!one_in || (checking && one_in > 1)) {
        fprintf(stderr, "tc: --one-in takes a number from 1, and only all triangles can be checked\n");
        return 2;
    }
    uint64_t wrong = 0;
    if (skewed())
        renumber();
    for (int trial = 0; trial < trials; trial++) {
        total = 0;
        parallel(count);
        if (checking)
            wrong += check();
    }
    printf("%llu triangles\n", (unsigned long long)total);
    return finish(wrong);
}
