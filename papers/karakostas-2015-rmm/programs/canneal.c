/* Like canneal of PARSEC: simulated annealing of a netlist. Elements are allocated one by one, each with its nets; two at random
 * change places if that shortens their wires, or by chance.
 *     canneal ELEMENTS SWAPS */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct place {
    int x, y;
};

struct element {
    struct place *at;
    int fanin, fanout;
    struct element **in, **out;
    char name[24];
};

static uint64_t state = 7;

static uint32_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 32;
}

static long wires(struct element *e, struct place *at)
{
    long sum = 0;
    for (int i = 0; i < e->fanin; i++)
        sum += labs((long)e->in[i]->at->x - at->x) + labs((long)e->in[i]->at->y - at->y);
    for (int i = 0; i < e->fanout; i++)
        sum += labs((long)e->out[i]->at->x - at->x) + labs((long)e->out[i]->at->y - at->y);
    return sum;
}

/* Writes the digits of `n`, the lowest first. */
static void digits(char *to, uint32_t n)
{
    do
        *to++ = '0' + n % 10;
    while (n /= 10);
    *to = 0;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    uint32_t count = atoi(argv[1]), swaps = atoi(argv[2]), side = sqrt(count) + 1;
    struct element **all = malloc(count * sizeof *all);
    for (uint32_t i = 0; i < count; i++) {
        struct element *e = all[i] = malloc(sizeof *e);
        e->at = malloc(sizeof *e->at);
        e->at->x = i % side;
        e->at->y = i / side;
        e->fanin = 2 + i % 4;
        e->fanout = 2 + i % 3;
        digits(e->name, i);
    }
    for (uint32_t i = 0; i < count; i++) {
        all[i]->in = malloc(all[i]->fanin * sizeof(void *));
        all[i]->out = malloc(all[i]->fanout * sizeof(void *));
        for (int k = 0; k < all[i]->fanin; k++)
            all[i]->in[k] = all[next() % count];
        for (int k = 0; k < all[i]->fanout; k++)
            all[i]->out[k] = all[next() % count];
    }
    long gain = 0;
    double temperature = 2000;
    for (uint32_t swap = 0; swap < swaps; swap++, temperature *= 0.999999) {
        struct element *a = all[next() % count], *b = all[next() % count];
        long delta = wires(a, b->at) + wires(b, a->at) - wires(a, a->at) - wires(b, b->at);
        if (delta < 0 || next() % 1000 < 1000 * exp(-delta / temperature)) {
            struct place *at = a->at;
            a->at = b->at;
            b->at = at;
            gain -= delta;
        }
    }
    printf("%ld\n", gain);
}
