/* Like soplex of SPEC 2006: pricing of a sparse linear program by columns, and updates of dense vectors by rows.
 *     soplex ROWS COLUMNS ENTRIES_A_COLUMN ITERATIONS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct entry {
    double value;
    int row;
};

static uint64_t state = 17;

static uint32_t next(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return state >> 33;
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    int rows = atoi(argv[1]), columns = atoi(argv[2]), per = atoi(argv[3]), iterations = atoi(argv[4]);
    struct entry *entry = malloc(sizeof *entry * columns * per);
    double *dual = malloc(rows * sizeof *dual), *price = malloc(columns * sizeof *price);
    int *by_row = malloc(sizeof *by_row * columns * per);
    for (int i = 0; i < rows; i++)
        dual[i] = 1;
    for (long i = 0; i < (long)columns * per; i++) {
        entry[i] = (struct entry){ next() % 1000 / 1000.0, next() % rows };
        by_row[i] = next() % columns;
    }
    double objective = 0;
    for (int it = 0; it < iterations; it++) {
        int best = 0;
        /* Partial pricing: one column in eight. */
        for (int c = it % 8; c < columns; c += 8) {
            double sum = 0;
            for (int k = 0; k < per; k++)
                sum += entry[(long)c * per + k].value * dual[entry[(long)c * per + k].row];
            price[c] = sum;
            if (sum > price[best])
                best = c;
        }
        for (int k = 0; k < per; k++)
            dual[entry[(long)best * per + k].row] *= 0.99;
        for (int k = 0; k < 20000; k++)
            price[by_row[next() % ((long)columns * per)]] -= 0.001;
        objective += price[best];
    }
    printf("%g\n", objective);
}
