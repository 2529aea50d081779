/* PageRank as GAP has it: each vertex adds up what its neighbours contribute, and what it contributes itself is new at once
 * (Gauss-Seidel), until scores change by less than 10^-4 in all, or 20 times. With more than one thread the last digits depend
 * on who comes first. Arguments: graph.h. */
#include "graph.h"
#include <math.h>
#include <stdatomic.h>

enum { ITERATIONS = 20 };
static const float DAMPING = 0.85f;
static const double TOLERANCE = 1e-4;

static float *score;
static _Atomic float *contribution;
static double change[MOST_THREADS];

static void start(int thread)
{
    uint64_t from, to;
    (void)thread;
    while (block(vertices, &from, &to))
        for (uint64_t v = from; v < to; v++) {
            score[v] = 1.0f / vertices;
            atomic_store_explicit(&contribution[v], score[v] / degree(v), memory_order_relaxed);
        }
}

static void pull(int thread)
{
    uint64_t from, to;
    double mine = 0;
    while (block(vertices, &from, &to))
        for (uint64_t v = from; v < to; v++) {
            float sum = 0;
            for (uint64_t k = row[v]; k < row[v + 1]; k++)
                sum += atomic_load_explicit(&contribution[near[k]], memory_order_relaxed);
            float old = score[v];
            score[v] = (1 - DAMPING) / vertices + DAMPING * sum;
            mine += fabsf(score[v] - old);
            atomic_store_explicit(&contribution[v], score[v] / degree(v), memory_order_relaxed);
        }
    change[thread] = mine;
}

static int ranks(void)
{
    parallel(start);
    for (int i = 1;; i++) {
        parallel(pull);
        double sum = 0;
        for (int t = 0; t < threads; t++)
            sum += change[t];
        if (sum < TOLERANCE || i == ITERATIONS)
            return i;
    }
}

/* Power iteration in double precision, all scores from all old ones, until nothing changes. What is left of the error when
 * scores change by t is at most t * d / (1 - d), and single precision adds some. */
static uint64_t check(void)
{
    double *now = get(vertices * sizeof *now), *then = get(vertices * sizeof *then), moved, off = 0;
    for (uint32_t v = 0; v < vertices; v++)
        now[v] = 1.0 / vertices;
    do {
        moved = 0;
        double *swap = now;
        now = then;
        then = swap;
        for (uint32_t v = 0; v < vertices; v++) {
            double sum = 0;
            for (uint64_t k = row[v]; k < row[v + 1]; k++)
                sum += then[near[k]] / degree(near[k]);
            now[v] = 0.15 / vertices + 0.85 * sum;
            moved += fabs(now[v] - then[v]);
        }
    } while (moved > 1e-10);
    for (uint32_t v = 0; v < vertices; v++)
        off += fabs(now[v] - score[v]);
    free(then);
    free(now);
    return off > 1e-3;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    uint64_t wrong = 0;
    int iterations = 0;
    score = get(vertices * sizeof *score);
    contribution = get(vertices * sizeof *contribution);
    for (int trial = 0; trial < trials; trial++) {
        iterations += ranks();
        if (checking)
            wrong += check();
    }
    printf("%d iterations\n", iterations);
    return finish(wrong);
}
