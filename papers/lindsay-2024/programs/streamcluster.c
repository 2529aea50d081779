/* Like streamcluster of PARSEC: points of many dimensions come in chunks; of each, medians are found by local search on what it
 * gains to open a facility, as many of them as the price of one allows, which is sought until there are enough and not too
 * many; the medians of all chunks are clustered in the end. Points are random vectors.
 *     streamcluster LEAST MOST DIMENSIONS POINTS CHUNK [THREADS] [--check]
 * With --check every gain is also found by its definition, and every point's cost by going over all medians. */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 64, SEARCHES = 3 };

struct point {
    float weight;
    float *at;
    long centre;
    float cost;
};

static long dimensions, count; /* of the points at hand */
static struct point *point;
static int threads = 1, checking;
static uint64_t wrong, state = 1;

static uint32_t next(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return state >> 33;
}

static double share(void)
{
    return next() / 2147483648.0;
}

static void *get(size_t bytes)
{
    void *at = malloc(bytes);
    if (!at) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(2);
    }
    return at;
}

static float distance(const struct point *a, const struct point *b)
{
    float sum = 0;
    for (long i = 0; i < dimensions; i++)
        sum += (a->at[i] - b->at[i]) * (a->at[i] - b->at[i]);
    return sum;
}

/* Threads go from phase to phase together, and only within one call of a search. */

static pthread_barrier_t barrier;

static void all(void *(*run)(void *))
{
    pthread_t helper[MOST_THREADS];
    for (intptr_t t = 1; t < threads; t++)
        if (pthread_create(&helper[t], 0, run, (void *)t))
            exit(2);
    run(0);
    for (int t = 1; t < threads; t++)
        pthread_join(helper[t], 0);
}

/* A search: opened facilities, each with its number; what is gained by opening `candidate` at `price`. */

static char *open, *switches;
static long *table; /* the number of an open facility */
static double price, *lower, opened[MOST_THREADS], gained;
static long candidate, facilities;
static long *feasible, choices, rounds;
static double total;

/* What opening the candidate would change: points that come to it, and facilities that go since their points may as well. */
static void weigh(int thread)
{
    long from = count * thread / threads, to = count * (thread + 1) / threads;
    double *mine = lower + (facilities + 1) * thread, sum = 0;
    memset(mine, 0, facilities * sizeof *mine);
    for (long i = from; i < to; i++) {
        float cost = distance(&point[i], &point[candidate]) * point[i].weight, less = cost - point[i].cost;
        switches[i] = less < 0;
        if (less < 0)
            sum += less;
        else
            mine[table[point[i].centre]] += less;
    }
    opened[thread] = sum;
}

static double by_definition(void);

/* All threads weigh, one decides, all change what has been decided. */
static void gain(int thread)
{
    weigh(thread);
    pthread_barrier_wait(&barrier);
    if (!thread) {
        gained = -price;
        for (int t = 0; t < threads; t++)
            gained -= opened[t];
        for (long f = 0; f < facilities; f++) {
            double sum = 0;
            for (int t = 0; t < threads; t++)
                sum += lower[(facilities + 1) * t + f];
            /* What its closing gains; it goes where that is more than nothing. */
            lower[f] = price - sum;
            if (lower[f] > 0)
                gained += lower[f];
        }
        if (checking) {
            double plain = by_definition();
            wrong += fabs(plain - gained) > 1e-3 * (fabs(plain) + fabs(gained) + price);
        }
    }
    pthread_barrier_wait(&barrier);
    if (gained <= 0 || open[candidate])
        return;
    long from = count * thread / threads, to = count * (thread + 1) / threads;
    for (long i = from; i < to; i++)
        if (switches[i] || lower[table[point[i].centre]] > 0) {
            point[i].cost = point[i].weight * distance(&point[i], &point[candidate]);
            point[i].centre = candidate;
        }
    pthread_barrier_wait(&barrier);
    if (!thread) {
        open[candidate] = 1;
        facilities = 0;
        for (long i = 0; i < count; i++) {
            if (open[i] && i != candidate && lower[table[i]] > 0)
                open[i] = 0;
            if (open[i] && i != candidate)
                table[i] = facilities++;
        }
        table[candidate] = facilities++;
        total -= gained;
    }
    pthread_barrier_wait(&barrier);
}

/* The gain from its definition: for each facility, what its points would pay if it went. */
static double by_definition(void)
{
    double sum = -price;
    for (long f = 0; f < count; f++)
        if (open[f]) {
            double closing = price;
            for (long i = 0; i < count; i++)
                if (point[i].centre == f) {
                    double there = distance(&point[i], &point[candidate]) * point[i].weight;
                    if (there < point[i].cost)
                        sum += point[i].cost - there;
                    else
                        closing -= there - point[i].cost;
                }
            sum += closing > 0 ? closing : 0;
        }
    return sum;
}

static void *search(void *number)
{
    int thread = (int)(intptr_t)number;
    for (long i = 0; i < rounds; i++) {
        if (!thread)
            candidate = feasible[i % choices];
        pthread_barrier_wait(&barrier);
        gain(thread);
        pthread_barrier_wait(&barrier);
    }
    return 0;
}

/* Each point becomes a facility with the likelihood of its cost in relation to the price. */
static void first_facilities(void)
{
    memset(open, 0, count);
    open[0] = 1;
    for (long i = 0; i < count; i++) {
        point[i].cost = distance(&point[i], &point[0]) * point[i].weight;
        point[i].centre = 0;
    }
    for (long i = 1; i < count; i++)
        if (share() < point[i].cost / price) {
            open[i] = 1;
            for (long k = 0; k < count; k++) {
                float cost = distance(&point[k], &point[i]) * point[k].weight;
                if (cost < point[k].cost)
                    point[k].cost = cost, point[k].centre = i;
            }
        }
    facilities = 0;
    total = 0;
    for (long i = 0; i < count; i++) {
        if (open[i])
            table[i] = facilities++;
        total += point[i].cost;
    }
    total += facilities * price;
}

/* A search at the present price, of so many candidates. */
static void at_price(long candidates)
{
    rounds = candidates;
    all(search);
}

/* Between `least` and `most` medians of the points at hand; what they pay in all for being away from them. */
static double medians(long least, long most)
{
    double low = 0, high = 0, away = 0;
    open = get(count);
    switches = get(count);
    table = get(count * sizeof *table);
    lower = get((count + 1) * threads * sizeof *lower);
    feasible = get(count * sizeof *feasible);
    for (long i = 0; i < count; i++)
        high += distance(&point[i], &point[0]) * point[i].weight;
    choices = 0;
    price = high / 2;
    first_facilities();
    /* Enough candidates to hit every median's neighbourhood with great likelihood. */
    long wanted = SEARCHES * most * (long)(log(most + 1.0) + 1);
    for (long i = 0; i < count && choices < (wanted < count ? wanted : count); i++)
        feasible[choices++] = wanted < count ? (long)(next() % count) : i;
    for (int tries = 0; tries < 40; tries++) {
        at_price(choices);
        if (facilities >= least && facilities <= most)
            break;
        if (facilities > most)
            low = price;
        else
            high = price;
        price = (low + high) / 2;
        first_facilities();
    }
    for (long i = 0; i < count; i++) {
        away += point[i].cost;
        if (checking) {
            double own = distance(&point[i], &point[point[i].centre]) * point[i].weight;
            wrong += !open[point[i].centre] || fabs(own - point[i].cost) > 1e-3 * (own + 1e-3);
        }
    }
    if (checking)
        wrong += fabs(away + facilities * price - total) > 1e-3 * (total + 1);
    free(feasible), free(lower), free(table), free(switches), free(open);
    return away;
}

int main(int argc, char **argv)
{
    checking = argc > 1 && !strcmp(argv[argc - 1], "--check");
    argc -= checking;
    if (argc < 6 || atol(argv[1]) < 1 || atol(argv[2]) < atol(argv[1]) || atol(argv[3]) < 1 || atol(argv[5]) < 1) {
        fprintf(stderr, "usage: streamcluster LEAST MOST DIMENSIONS POINTS CHUNK [THREADS] [--check]\n");
        return 2;
    }
    long least = atol(argv[1]), most = atol(argv[2]), left = atol(argv[4]), chunk = atol(argv[5]);
    dimensions = atol(argv[3]);
    threads = argc > 6 ? atoi(argv[6]) : 1;
    threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    pthread_barrier_init(&barrier, 0, threads);
    long kept = 0, most_kept = (left / chunk + 2) * (most + 1), final = 0;
    float *block = get(chunk * dimensions * sizeof *block), *centres = get(most_kept * dimensions * sizeof *centres);
    float *weights = get(most_kept * sizeof *weights);
    double away = 0;
    while (left > 0) {
        count = left < chunk ? left : chunk;
        point = get(count * sizeof *point);
        for (long i = 0; i < count; i++) {
            point[i] = (struct point){ 1, block + i * dimensions, 0, 0 };
            for (long k = 0; k < dimensions; k++)
                point[i].at[k] = share();
        }
        /* Points are visited in no order of memory. */
        for (long i = count - 1; i > 0; i--) {
            long other = next() % (i + 1);
            struct point swap = point[i];
            point[i] = point[other];
            point[other] = swap;
        }
        away = medians(least, most);
        for (long i = 0, first = kept; i < count; i++) {
            struct point *p = &point[i], *centre = &point[p->centre];
            long at = first;
            while (at < kept && memcmp(centres + at * dimensions, centre->at, dimensions * sizeof *centres))
                at++;
            if (at == kept) {
                if (kept == most_kept)
                    break;
                memcpy(centres + kept * dimensions, centre->at, dimensions * sizeof *centres);
                weights[kept++] = 0;
            }
            weights[at] += p->weight;
        }
        free(point);
        left -= count;
    }
    count = kept;
    point = get(count * sizeof *point);
    for (long i = 0; i < count; i++)
        point[i] = (struct point){ weights[i], centres + i * dimensions, 0, 0 };
    if (count > 1)
        away = medians(least, most);
    final = facilities;
    printf("%ld medians of %ld, %g away\n", final, kept, away);
    if (!checking)
        return 0;
    puts(wrong ? "wrong" : "right");
    return wrong != 0;
}
