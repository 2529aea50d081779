/* Like mcf of SPEC 2006: vehicles for timetabled trips at least cost, by a network simplex over records of nodes and arcs
 * that point at each other, with partial pricing. From the end of each of N trips a vehicle may go to the start of any other
 * (N * (N - 1) dead-head arcs) or to the depot, and from the depot to the start of any. A vehicle that cannot be there in time
 * waits for the next day. Times and places are random.
 *     mcf TRIPS [PIVOTS] [--check]
 * ends at the optimum or after so many pivots. --check compares the optimum with that of successive shortest paths; for few
 * trips. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arc;

struct node {
    long potential;
    struct node *pred, *child, *sibling, *sibling_prev; /* the tree of basic arcs */
    struct arc *basic; /* to or from `pred` */
    int up; /* it goes to `pred` */
    int depth;
    long flow; /* of the basic arc; others have none */
    struct arc *out, *in;
    int number, time;
};

struct arc {
    long cost;
    struct node *tail, *head;
    struct arc *next_out, *next_in;
    long reduced;
    int basic, group;
};

enum { DAY = 1440, VEHICLE = 20000, GROUPS = 300, BASKET = 50 };

static uint64_t state = 1;

static uint32_t next(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return state >> 33;
}

static long trips, arcs, made;
static struct node *node; /* the depot, the ends of all trips, the starts of all trips */
static struct arc *arc;

static void *get(size_t bytes)
{
    void *at = calloc(1, bytes);
    if (!at) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(2);
    }
    return at;
}

static struct arc *add_arc(struct node *tail, struct node *head, long cost)
{
    struct arc *a = &arc[made++];
    a->cost = cost;
    a->tail = tail;
    a->head = head;
    a->next_out = tail->out;
    tail->out = a;
    a->next_in = head->in;
    head->in = a;
    return a;
}

static void hang(struct node *n, struct node *pred, struct arc *basic)
{
    n->pred = pred;
    n->basic = basic;
    n->up = basic->tail == n;
    n->sibling_prev = 0;
    n->sibling = pred->child;
    if (pred->child)
        pred->child->sibling_prev = n;
    pred->child = n;
}

static void unhang(struct node *n)
{
    if (n->sibling_prev)
        n->sibling_prev->sibling = n->sibling;
    else
        n->pred->child = n->sibling;
    if (n->sibling)
        n->sibling->sibling_prev = n->sibling_prev;
}

/* A timetable, its network, and the tree in which every trip has a vehicle to itself. */
static void make_network(void)
{
    struct { int start, end, from, to; } *trip = get(trips * sizeof *trip);
    arcs = trips * (trips - 1) + 2 * trips;
    node = get((2 * trips + 1) * sizeof *node);
    arc = get(arcs * sizeof *arc);
    for (long i = 0; i < trips; i++) {
        trip[i].start = next() % (DAY - 60);
        trip[i].end = trip[i].start + 10 + next() % 50;
        trip[i].from = next() % 10000;
        trip[i].to = next() % 10000;
    }
    for (long i = 0; i <= 2 * trips; i++)
        node[i].number = i;
    for (long i = 0; i < trips; i++) {
        struct node *end = &node[1 + i], *start = &node[1 + trips + i];
        end->time = trip[i].end;
        start->time = trip[i].start;
        end->flow = start->flow = 1;
        hang(end, &node[0], add_arc(end, &node[0], VEHICLE / 2 + trip[i].to / 10));
        hang(start, &node[0], add_arc(&node[0], start, VEHICLE / 2 + trip[i].from / 10));
        end->basic->basic = start->basic->basic = 1;
        end->depth = start->depth = 1;
        /* What an arc from tail to head costs is potential of head less that of tail, where it is basic. */
        end->potential = -end->basic->cost;
        start->potential = start->basic->cost;
    }
    for (long i = 0; i < trips; i++)
        for (long j = 0; j < trips; j++)
            if (i != j) {
                long way = labs((long)trip[i].to - trip[j].from), wait = trip[j].start - trip[i].end - way / 100;
                add_arc(&node[1 + i], &node[1 + trips + j], way + (wait < 0 ? wait + 2 * DAY : wait) * 5);
            }
    for (long a = 0; a < arcs; a++)
        arc[a].group = a % GROUPS;
    free(trip);
}

static long reduced_cost(const struct arc *a)
{
    return a->cost + a->tail->potential - a->head->potential;
}

static struct arc *basket[BASKET + 1];
static int in_basket;
static long group;

static void put_in_basket(struct arc *a)
{
    int i = in_basket < BASKET ? in_basket++ : BASKET - 1;
    if (in_basket == BASKET && i == BASKET - 1 && basket[i] && basket[i]->reduced <= a->reduced)
        return;
    for (; i > 0 && basket[i - 1]->reduced > a->reduced; i--)
        basket[i] = basket[i - 1];
    basket[i] = a;
}

/* The arc that saves most among those found before and some groups more; none when no arc saves anything. */
static struct arc *price(void)
{
    struct arc *old[BASKET];
    int n = in_basket;
    memcpy(old, basket, sizeof old);
    memset(basket, 0, sizeof basket);
    in_basket = 0;
    for (int i = 0; i < n; i++)
        if (!old[i]->basic && (old[i]->reduced = reduced_cost(old[i])) < 0)
            put_in_basket(old[i]);
    for (int seen = 0; seen < GROUPS && in_basket < BASKET; seen++) {
        for (struct arc *a = arc + group; a < arc + arcs; a += GROUPS) {
            if (a->basic)
                continue;
            long reduced = reduced_cost(a);
            if (reduced < 0) {
                int twice = 0;
                for (int i = 0; i < n; i++)
                    twice |= old[i] == a;
                a->reduced = reduced;
                if (!twice)
                    put_in_basket(a);
            }
        }
        group = (group + 1) % GROUPS;
    }
    return in_basket ? basket[0] : 0;
}

/* The subtree of `top` has moved. */
static void shift(struct node *top, long potential)
{
    struct node *n = top;
    for (;;) {
        n->potential += potential;
        n->depth = n->pred->depth + 1;
        if (n->child) {
            n = n->child;
            continue;
        }
        while (n != top && !n->sibling)
            n = n->pred;
        if (n == top)
            return;
        n = n->sibling;
    }
}

/* `enter` becomes basic: as much flows around its cycle as the tree lets, and the arc that lets no more leaves. Among several
 * it is the last on the way around from where both sides meet, so that no tree comes twice (Cunningham 1976). */
static void pivot(struct arc *enter)
{
    struct node *u = enter->tail, *v = enter->head, *leave = 0;
    long most = -1;
    int on_tail_side = 0;
    for (struct node *a = u, *b = v; a != b;) {
        if (a->depth >= b->depth) {
            if (a->up && (most < 0 || a->flow < most))
                most = a->flow, leave = a, on_tail_side = 1;
            a = a->pred;
        } else {
            b = b->pred;
        }
    }
    for (struct node *a = u, *b = v; a != b;) {
        if (b->depth >= a->depth) {
            if (!b->up && (most < 0 || b->flow <= most))
                most = b->flow, leave = b, on_tail_side = 0;
            b = b->pred;
        } else {
            a = a->pred;
        }
    }
    if (!leave) {
        fprintf(stderr, "no arc bounds the cycle\n");
        exit(2);
    }
    for (struct node *a = u, *b = v; a != b;) {
        if (a->depth >= b->depth) {
            a->flow += a->up ? -most : most;
            a = a->pred;
        } else {
            b->flow += b->up ? most : -most;
            b = b->pred;
        }
    }
    /* From the end of `enter` on the side that is cut off up to the cut, all hang the other way around. */
    struct node *n = on_tail_side ? u : v, *pred = on_tail_side ? v : u;
    struct arc *basic = enter;
    long flow = most, potential = on_tail_side ? -reduced_cost(enter) : reduced_cost(enter);
    leave->basic->basic = 0;
    enter->basic = 1;
    struct node *top = n;
    for (int last = 0; !last;) {
        struct node *old_pred = n->pred;
        struct arc *old_basic = n->basic;
        long old_flow = n->flow;
        last = n == leave;
        unhang(n);
        hang(n, pred, basic);
        n->flow = flow;
        pred = n;
        n = old_pred;
        basic = old_basic;
        flow = old_flow;
    }
    shift(top, potential);
}

static long total(void)
{
    long sum = 0;
    for (long i = 1; i <= 2 * trips; i++)
        sum += node[i].flow * node[i].basic->cost;
    return sum;
}

/* Ends are given starts one by one, always by the cheapest way to change what was given before (Bellman-Ford); no start stands
 * for the depot, and what starts are left come from there. */
static long by_shortest_paths(void)
{
    const long far = 1l << 60;
    long *cost = get(trips * trips * sizeof *cost), *in = get(trips * sizeof *in), *out = get(trips * sizeof *out);
    long *given = get(trips * sizeof *given), *taker = get(trips * sizeof *taker); /* by end, by start; -1 is the depot */
    long *distance = get(trips * sizeof *distance), *through = get(trips * sizeof *through), sum = 0;
    for (long a = 0; a < trips * trips; a++)
        cost[a] = far;
    for (long a = 0; a < arcs; a++) {
        long tail = arc[a].tail->number, head = arc[a].head->number;
        if (!head)
            in[tail - 1] = arc[a].cost;
        else if (!tail)
            out[head - 1 - trips] = arc[a].cost;
        else
            cost[(tail - 1) * trips + head - 1 - trips] = arc[a].cost;
    }
    for (long i = 0; i < trips; i++) {
        sum += in[i] + out[i];
        given[i] = taker[i] = -1;
    }
    for (;;) {
        /* From the depot, which ends leave, over starts that they take from others, which must go elsewhere. */
        long best = 0, last = -1;
        for (long j = 0; j < trips; j++)
            distance[j] = far, through[j] = -1;
        for (int changed = 1; changed;) {
            changed = 0;
            for (long i = 0; i < trips; i++) {
                long at = given[i] < 0 ? -in[i] : distance[given[i]] == far ? far : distance[given[i]] - cost[i * trips + given[i]];
                if (at == far)
                    continue;
                for (long j = 0; j < trips; j++)
                    if (cost[i * trips + j] < far && j != given[i] && at + cost[i * trips + j] < distance[j]) {
                        distance[j] = at + cost[i * trips + j];
                        through[j] = i;
                        changed = 1;
                    }
            }
        }
        for (long j = 0; j < trips; j++)
            if (taker[j] < 0 && distance[j] < far && distance[j] - out[j] < best)
                best = distance[j] - out[j], last = j;
        /* Or an end gives its start back and goes to the depot: never cheaper, since shortest paths keep the cost of the
         * number of starts that are taken convex, and it falls as long as `best` is below 0. */
        if (last < 0)
            break;
        sum += best;
        for (long j = last; j >= 0;) {
            long i = through[j], old = given[i];
            given[i] = j;
            taker[j] = i;
            j = old;
        }
    }
    free(through), free(distance), free(taker), free(given), free(out), free(in), free(cost);
    return sum;
}

int main(int argc, char **argv)
{
    int checking = argc > 1 && !strcmp(argv[argc - 1], "--check");
    argc -= checking;
    trips = argc > 1 ? atol(argv[1]) : 0;
    long limit = argc > 2 ? atol(argv[2]) : -1, pivots = 0;
    if (trips < 2) {
        fprintf(stderr, "usage: mcf TRIPS [PIVOTS] [--check]\n");
        return 2;
    }
    make_network();
    struct arc *enter = 0;
    while (pivots != limit && (enter = price())) {
        pivot(enter);
        pivots++;
    }
    printf("%ld pivots, cost %ld\n", pivots, total());
    if (!checking)
        return 0;
    int right = total() == by_shortest_paths();
    puts(right ? "right" : "wrong");
    return !right;
}
