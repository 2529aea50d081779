/* In place of mcf of SPEC CPU2000: the pricing of arcs, in which mcf spends its time. Every pass goes through all arcs in
 * their order and looks at the potentials of both ends, anywhere among the nodes; arcs of negative reduced cost lower
 * the potential of their head, as in the shortest paths of Bellman and Ford, until passes or such arcs run out. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* As large as mcf's: 104 and 64 bytes. */
struct node { long potential; struct arc *from; int orientation, number; long unused[10]; };
struct arc { struct node *tail, *head; long cost, flow; int state; long unused[3]; };

static uint64_t seed = 11;
static unsigned chance(unsigned below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 20) % below;
}

int main(int count, char **words)
{
    if (count < 4)
        return 1;
    int nodes = atoi(words[1]), arcs = atoi(words[2]), passes = atoi(words[3]);
    struct node *node = calloc(nodes, sizeof *node);
    struct arc *arc = malloc(arcs * sizeof *arc);
    if (!node || !arc)
        return 1;
    for (int i = 1; i < nodes; i++) {
        node[i].potential = 1 << 30;
        node[i].number = i;
    }
    for (int i = 0; i < arcs; i++) {
        int tail = chance(nodes), head = chance(nodes);
        arc[i] = (struct arc) { .tail = &node[tail], .head = &node[head], .cost = 1 + chance(1000) };
    }
    long changed = 1, all = 0;
    for (int pass = 0; pass < passes && changed; pass++) {
        changed = 0;
        for (struct arc *a = arc; a < arc + arcs; a++) {
            long reduced = a->cost + a->tail->potential - a->head->potential;
            if (reduced < 0) {
                a->head->potential += reduced;
                a->head->from = a;
                a->flow++;
                changed++;
            }
        }
        all += changed;
    }
    printf("%ld\n", all);
    return 0;
}
