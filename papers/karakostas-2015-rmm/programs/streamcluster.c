/* Like streamcluster of PARSEC: gains of opening centres among points of many dimensions, in one block of coordinates.
 *     streamcluster POINTS DIMENSIONS CANDIDATES */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct point {
    float weight;
    float *at;
    long centre;
    float cost;
};

static uint64_t state = 3;

static uint32_t next(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return state >> 33;
}

static float distance(const float *a, const float *b, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    long points = atol(argv[1]);
    int dimensions = atoi(argv[2]), candidates = atoi(argv[3]);
    float *block = malloc(sizeof *block * points * dimensions);
    struct point *point = malloc(points * sizeof *point);
    uint32_t *order = malloc(points * sizeof *order);
    for (long i = 0; i < points; i++) {
        point[i] = (struct point){ 1, block + i * dimensions, 0, 1e30f };
        order[i] = i;
        for (int k = 0; k < dimensions; k++)
            point[i].at[k] = next() % 1000 / 1000.0f;
    }
    /* Points are visited in a shuffled order, as after PARSEC's shuffle. */
    for (long i = points - 1; i > 0; i--) {
        long other = next() % (i + 1);
        uint32_t swap = order[i];
        order[i] = order[other];
        order[other] = swap;
    }
    double total = 0;
    for (int c = 0; c < candidates; c++) {
        long centre = next() % points;
        for (long i = 0; i < points; i++) {
            struct point *p = &point[order[i]];
            float cost = distance(p->at, point[centre].at, dimensions);
            if (cost < p->cost) {
                p->cost = cost;
                p->centre = centre;
                total += cost;
            }
        }
    }
    printf("%g\n", total);
}
