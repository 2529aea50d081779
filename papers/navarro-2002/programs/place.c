/* In place of twolf of SPEC CPU2000: simulated annealing of a placement. Cells on a grid are connected by
 * random nets of two to six pins; two cells change places when that shortens the boxes around their nets, or by luck. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct net { int pins, left, right, low, high; struct cell **cells; };
struct cell { int x, y, nets; struct net **of; char name[24]; };

static uint64_t seed = 1;
static uint32_t chance(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 20) % below;
}

static int length(struct net *net)
{
    int left = 1 << 30, right = 0, low = 1 << 30, high = 0;
    for (int i = 0; i < net->pins; i++) {
        struct cell *cell = net->cells[i];
        left = cell->x < left ? cell->x : left;
        right = cell->x > right ? cell->x : right;
        low = cell->y < low ? cell->y : low;
        high = cell->y > high ? cell->y : high;
    }
    net->left = left, net->right = right, net->low = low, net->high = high;
    return right - left + high - low;
}

static int around(struct cell *cell)
{
    int sum = 0;
    for (int i = 0; i < cell->nets; i++)
        sum += length(cell->of[i]);
    return sum;
}

static void swap(struct cell *a, struct cell *b)
{
    int x = a->x, y = a->y;
    a->x = b->x, a->y = b->y;
    b->x = x, b->y = y;
}

int main(int count, char **words)
{
    if (count < 3)
        return 1;
    int side = atoi(words[1]), cells = side * side, nets = cells;
    long moves = atol(words[2]), taken = 0;
    struct cell **all = malloc(cells * sizeof *all);
    struct net **wires = malloc(nets * sizeof *wires);
    for (int i = 0; i < cells; i++) {
        all[i] = calloc(1, sizeof **all);
        all[i]->x = i % side, all[i]->y = i / side;
    }
    for (int i = 0; i < nets; i++) {
        struct net *net = wires[i] = calloc(1, sizeof *net);
        net->pins = 2 + chance(5);
        net->cells = malloc(net->pins * sizeof *net->cells);
        for (int k = 0; k < net->pins; k++) {
            struct cell *cell = net->cells[k] = all[chance(cells)];
            cell->of = realloc(cell->of, (cell->nets + 1) * sizeof *cell->of);
            cell->of[cell->nets++] = net;
        }
    }
    double heat = side;
    for (long move = 0; move < moves; move++) {
        struct cell *a = all[chance(cells)], *b = all[chance(cells)];
        int before = around(a) + around(b);
        swap(a, b);
        int change = around(a) + around(b) - before;
        if (change > 0 && chance(1 << 20) > (1 << 20) * exp(-change / heat))
            swap(a, b);
        else
            taken++;
        if (move % 1000 == 999)
            heat *= 0.98;
    }
    printf("%ld\n", taken);
    return 0;
}
