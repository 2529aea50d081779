/* Like mcf of SPEC 2006: the pricing and tree updates of a network simplex for timetabled trips, without the flows. Arcs
 * and nodes are records of mcf's size; arcs are scanned in groups, the best of which enters, and a path of the tree is
 * followed and re-hung.
 *     mcf NODES ARCS PIVOTS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct arc;

struct node {
    long potential;
    int orientation, depth;
    struct node *child, *pred, *sibling, *sibling_prev;
    struct arc *basic, *out, *in;
    long flow, mark;
    int number, time;
};

struct arc {
    long cost;
    struct node *tail, *head;
    int ident, group;
    struct arc *next_out, *next_in;
    long flow, org_cost;
};

static uint64_t state = 1;

static uint32_t next(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return state >> 33;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    uint32_t nodes = atoi(argv[1]), arcs = atoi(argv[2]), pivots = atoi(argv[3]);
    struct node *node = calloc(nodes, sizeof *node);
    struct arc *arc = calloc(arcs, sizeof *arc);
    for (uint32_t i = 1; i < nodes; i++) {
        struct node *pred = &node[i > 64 ? i - 1 - next() % 64 : 0];
        node[i].pred = pred;
        node[i].depth = pred->depth + 1;
        node[i].sibling = pred->child;
        pred->child = &node[i];
        node[i].potential = next() % 100000;
    }
    for (uint32_t i = 0; i < arcs; i++) {
        arc[i].tail = &node[next() % nodes];
        arc[i].head = &node[next() % nodes];
        arc[i].cost = arc[i].org_cost = next() % 100000;
        arc[i].next_out = arc[i].tail->out;
        arc[i].tail->out = &arc[i];
    }
    const uint32_t groups = 307;
    uint32_t group = 0;
    long total = 0;
    for (uint32_t pivot = 0; pivot < pivots; pivot++) {
        struct arc *best = 0;
        long least = 0;
        /* Every so many arcs, as mcf's multiple partial pricing does. */
        for (uint32_t i = group, seen = 0; i < arcs && seen < 300; i += groups, seen++) {
            long reduced = arc[i].cost - arc[i].tail->potential + arc[i].head->potential;
            if (reduced < least)
                least = reduced, best = &arc[i];
        }
        group = (group + 1 + next() % groups) % groups + next() % 64 * groups * 16;
        if (group >= arcs)
            group %= groups;
        if (!best)
            continue;
        total += least;
        struct node *a = best->tail, *b = best->head;
        for (int steps = 0; a != b && steps < 400; steps++) {
            struct node **deeper = a->depth > b->depth ? &a : &b;
            (*deeper)->flow += least;
            (*deeper)->potential += least / 16;
            if (!(*deeper)->pred)
                break;
            *deeper = (*deeper)->pred;
        }
        best->flow++;
        best->cost = best->org_cost + next() % 1000;
    }
    printf("%ld\n", total);
}
