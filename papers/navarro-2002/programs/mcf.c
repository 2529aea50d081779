/* In place of mcf of SPEC CPU2000: a schedule of vehicles for timetabled trips, by the network simplex with multiple
 * partial pricing and with columns generated when no arc improves the schedule. Records have the sizes of mcf's on a
 * machine of 64 bits. Usage: mcf TRIPS MEGABYTES PIVOTS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = 300, BASKET = 50, REFRESH = 20, ARTIFICIAL = 100000000, VEHICLE = 1000000 };
enum { BASIC, LOWER, UPPER };

struct arc;
struct node {
    long potential;
    int up;
    struct node *child, *pred, *sibling, *sibling_prev;
    struct arc *basic, *out, *in, *unused;
    long flow, depth;
    int number, time;
};
struct arc {
    long cost;
    struct node *tail, *head;
    int state;
    struct arc *next_out, *next_in;
    long flow, first_cost;
};
struct candidate { struct arc *arc; long reduced, size; };

static struct node *node, *root;
static struct arc *arc, *dummy;
static long arcs, most, trips;

static uint64_t seed = 11;
static unsigned chance(unsigned below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 20) % below;
}

static struct arc *add(struct arc *a, struct node *tail, struct node *head, long cost)
{
    *a = (struct arc) { .cost = cost, .first_cost = cost, .tail = tail, .head = head, .state = LOWER };
    a->next_out = tail->out, a->next_in = head->in;
    return tail->out = head->in = a;
}

static long reduced(struct arc *a) { return a->cost - a->tail->potential + a->head->potential; }

static int improves(struct arc *a, long cost) { return (a->state == LOWER && cost < 0) || (a->state == UPPER && cost > 0); }

static int by_size(const void *a, const void *b)
{
    long x = ((const struct candidate *)a)->size, y = ((const struct candidate *)b)->size;
    return (x < y) - (x > y);
}

/* The best of the arcs in the basket, which is filled from groups of arcs that lie far apart. */
static struct arc *price(void)
{
    static struct candidate basket[GROUP + BASKET + 1];
    static long filled, group;
    long kept = 0, groups = (arcs - 1) / GROUP + 1, first = group %= groups;
    for (long i = 0; i < filled && i < BASKET; i++) {
        long cost = reduced(basket[i].arc);
        if (improves(basket[i].arc, cost))
            basket[kept++] = (struct candidate) { basket[i].arc, cost, labs(cost) };
    }
    filled = kept;
    do {
        for (struct arc *a = arc + group; a < arc + arcs; a += groups)
            if (a->state != BASIC) {
                long cost = reduced(a);
                if (improves(a, cost))
                    basket[filled++] = (struct candidate) { a, cost, labs(cost) };
            }
        group = group + 1 == groups ? 0 : group + 1;
    } while (filled < BASKET && group != first);
    qsort(basket, filled, sizeof *basket, by_size);
    struct arc *best = filled ? basket[0].arc : 0;
    if (filled)
        basket[0] = basket[--filled];
    return best;
}

static void cut(struct node *n)
{
    if (n->sibling_prev)
        n->sibling_prev->sibling = n->sibling;
    else
        n->pred->child = n->sibling;
    if (n->sibling)
        n->sibling->sibling_prev = n->sibling_prev;
}

static void hang(struct node *n, struct node *pred)
{
    n->pred = pred;
    n->sibling_prev = 0;
    n->sibling = pred->child;
    if (n->sibling)
        n->sibling->sibling_prev = n;
    pred->child = n;
}

/* Potentials and depths below n, in the order of the tree. */
static void refresh(struct node *top)
{
    for (struct node *n = top; n;) {
        if (n != root) {
            n->depth = n->pred->depth + 1;
            n->potential = n->pred->potential + (n->up ? n->basic->cost : -n->basic->cost);
        }
        if (n->child) {
            n = n->child;
            continue;
        }
        while (n != top && !n->sibling)
            n = n->pred;
        n = n == top ? 0 : n->sibling;
    }
}

static long room(struct node *n, int with)
{
    return n->up != with ? n->flow : n->pred == root ? ARTIFICIAL : 1 - n->flow;
}

static void pivot(struct arc *enters)
{
    int down = enters->state == LOWER;
    struct node *i = down ? enters->tail : enters->head, *j = down ? enters->head : enters->tail;
    struct node *a = i, *b = j, *leaves = 0;
    long delta = 1;
    int of_j = 0;
    while (a != b) {
        int climb_j = b->depth > a->depth || (b->depth == a->depth && b != a);
        struct node **n = climb_j ? &b : &a;
        long left = room(*n, climb_j);
        if (left < delta)
            delta = left, leaves = *n, of_j = climb_j;
        *n = (*n)->pred;
    }
    for (struct node *n = j; n != a; n = n->pred)
        n->flow += n->up ? delta : -delta;
    for (struct node *n = i; n != a; n = n->pred)
        n->flow += n->up ? -delta : delta;
    long flow = down ? delta : 1 - delta;
    if (!leaves) {
        enters->state = down ? UPPER : LOWER;
        enters->flow = flow;
        return;
    }
    leaves->basic->flow = leaves->flow;
    leaves->basic->state = leaves->flow ? UPPER : LOWER;
    enters->state = BASIC;
    struct node *below = of_j ? j : i, *above = of_j ? i : j, *last = leaves->pred;
    struct arc *by = enters;
    for (struct node *n = below, *next; n != last; n = next) {
        struct arc *old = n->basic;
        long old_flow = n->flow;
        next = n->pred;
        cut(n);
        n->basic = by, n->flow = flow, n->up = by->tail == n;
        hang(n, above);
        above = n, by = old, flow = old_flow;
        if (n == leaves)
            break;
    }
    refresh(below);
}

static void basis(struct node *n, struct node *pred, struct arc *by, long flow)
{
    n->basic = by, n->up = by->tail == n, n->flow = flow;
    by->state = BASIC;
    hang(n, pred);
}

static long cost_of(struct node *end, struct node *start)
{
    return 30 * (start->time - end->time - 15) + (end->number * 7919 + start->number * 104729) % 600;
}

/* Adds arcs between trips that a vehicle can serve one after the other, if they would improve the schedule. */
static void generate(void)
{
    for (long j = 1; j <= trips && arcs < most; j++)
        for (long i = j - 1; i > 0 && arcs < most; i--) {
            struct node *tail = &node[i], *head = &node[trips + j];
            long wait = head->time - tail->time;
            if (wait < 15)
                continue;
            long cost = cost_of(tail, head);
            if (cost - tail->potential + head->potential < 0)
                add(&arc[arcs++], tail, head, cost);
        }
}

static void simplex(long pivots)
{
    struct arc *enters;
    for (long i = 1; i <= pivots && (enters = price()); i++) {
        pivot(enters);
        if (i % REFRESH == 0)
            refresh(root);
    }
}

int main(int count, char **words)
{
    if (count < 4)
        return 1;
    trips = atol(words[1]);
    long nodes = 2 * trips + 2, pivots = atol(words[3]);
    most = ((atol(words[2]) << 20) - nodes * (sizeof *node + sizeof *arc)) / sizeof *arc;
    node = calloc(nodes, sizeof *node);
    dummy = calloc(nodes, sizeof *dummy);
    arc = calloc(most, sizeof *arc);
    if (!node || !dummy || !arc)
        return 1;
    /* calloc wrote zeros in 2000, where today's maps them. */
    memset(arc, 0, most * sizeof *arc);
    root = &node[nodes - 1];
    /* Node 0 is the depot, 1 to TRIPS are ends of trips, and the others their starts. */
    for (long i = 1, time = 0; i <= trips; i++) {
        time += chance(trips / 1200) == 0;
        node[trips + i].time = time;
        node[i].time = time + 10 + chance(60);
        node[i].number = i, node[trips + i].number = trips + i;
    }
    struct arc *a = &dummy[0];
    *a = (struct arc) { .cost = ARTIFICIAL, .tail = root, .head = &node[0] };
    node[0].basic = a;
    hang(&node[0], root);
    /* The first schedule gives each trip to the vehicle that has waited longest. */
    for (long i = 1, waits = 1; i <= trips; i++) {
        struct node *end = &node[i], *start = &node[trips + i];
        struct arc *out = add(&arc[arcs++], &node[0], start, VEHICLE), *in = add(&arc[arcs++], end, &node[0], 15);
        basis(end, &node[0], in, 1);
        if (node[waits].time + 15 > start->time) {
            basis(start, &node[0], out, 1);
        } else {
            struct arc *dead = add(&arc[arcs++], &node[waits], start, cost_of(&node[waits], start));
            basis(start, &node[waits], dead, 1);
            node[waits++].flow = 0;
        }
        for (long k = 0, j = i + 1; k < 8 && j <= trips; j += 1 + chance(40))
            if (node[trips + j].time >= end->time + 15) {
                add(&arc[arcs++], end, &node[trips + j], cost_of(end, &node[trips + j]));
                k++;
            }
    }
    refresh(root);
    simplex(pivots / 2);
    generate();
    simplex(pivots / 2);
    long cost = 0;
    for (long i = 0; i < nodes - 1; i++)
        cost += node[i].flow * node[i].basic->cost;
    for (long i = 0; i < arcs; i++)
        cost += arc[i].state == UPPER ? arc[i].cost : 0;
    printf("%ld arcs, cost %ld\n", arcs, cost);
    return 0;
}
