/* In place of vpr of SPEC CPU2000, which places a circuit on a programmable gate array and then routes it: simulated
 * annealing with boxes around nets, then a router that negotiates congestion and searches breadth first in the graph of
 * wires. A tile has a look-up table of four inputs; its channels have 15 tracks, as in SPEC's command line.
 * Usage: vpr SIDE MOVES NETS */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { TRACKS = 15, INPUTS = 4, CHUNK = 32768, MARGIN = 3 };

struct block { char *name; int *nets; int x, y; };
struct net { char *name; int pins, *blocks; };
struct box { int left, right, low, high; };
/* As large as vpr's: where a wire lies, its edges with their switches, its electric properties and its use. */
struct wire {
    short left, right, low, high, track, edges, occupied, capacity;
    int type, *to;
    short *switches;
    float resistance, capacity_farad;
};
struct cost { int from; short edge; float present, past, path, back; int target; };
struct step { int wire, from; float cost; struct step *next; };
struct link { int wire; struct link *next; };

static int side, blocks, wires;
static struct block *block;
static struct net *net;
static struct box *boxes;
static float *net_cost;
static int **at;
static struct wire *wire;
static struct cost *cost;
static struct step **heap, *spare;
static int heaped, room;

static uint64_t seed = 5;
static unsigned chance(unsigned below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 20) % below;
}

static void *chunk(size_t bytes)
{
    static char *next;
    static size_t left;
    bytes = (bytes + 7) & ~7ul;
    if (bytes > left)
        next = malloc(CHUNK), left = CHUNK;
    left -= bytes;
    return (next += bytes) - bytes;
}

/* Connections of twice the length are a third as frequent, as by Rent's rule. */
static int near(int from)
{
    int span = 4;
    while (span < side / 2 && !chance(3))
        span *= 2;
    int to = from + (int)chance(2 * span - 1) - (span - 1);
    return to < 0 ? -to : to >= side ? 2 * side - 2 - to : to;
}

/* Each block drives a net. Its inputs are nets of other blocks, most of which lie near. */
static void circuit(void)
{
    block = malloc(blocks * sizeof *block);
    net = calloc(blocks, sizeof *net);
    boxes = malloc(blocks * sizeof *boxes);
    net_cost = malloc(blocks * sizeof *net_cost);
    at = malloc(side * sizeof *at);
    for (int x = 0; x < side; x++)
        at[x] = malloc(side * sizeof **at);
    for (int b = 0; b < blocks; b++) {
        block[b] = (struct block) { malloc(24), malloc((INPUTS + 1) * sizeof(int)), b % side, b / side };
        at[b % side][b / side] = b;
        snprintf(block[b].name, 24, "block%d", b);
        net[b].name = block[b].name;
        net[b].blocks = malloc(sizeof(int));
        net[b].blocks[net[b].pins++] = block[b].nets[0] = b;
    }
    for (int b = 0; b < blocks; b++)
        for (int i = 1; i <= INPUTS; i++) {
            int x = near(b % side), n = near(b / side) * side + x;
            block[b].nets[i] = n;
            net[n].blocks = realloc(net[n].blocks, (net[n].pins + 1) * sizeof(int));
            net[n].blocks[net[n].pins++] = b;
        }
}

static float measure(struct net *n, struct box *box)
{
    *box = (struct box) { side, 0, side, 0 };
    for (int i = 0; i < n->pins; i++) {
        struct block *b = &block[n->blocks[i]];
        box->left = b->x < box->left ? b->x : box->left;
        box->right = b->x > box->right ? b->x : box->right;
        box->low = b->y < box->low ? b->y : box->low;
        box->high = b->y > box->high ? b->y : box->high;
    }
    float crossing = n->pins < 4 ? 1 : 1 + 0.05f * (n->pins - 3);
    return crossing * ((box->right - box->left + 1) + (box->high - box->low + 1)) / TRACKS;
}

static void swap(int a, int b)
{
    struct block *p = &block[a], *q = &block[b];
    int x = p->x, y = p->y;
    p->x = q->x, p->y = q->y, q->x = x, q->y = y;
    at[p->x][p->y] = a, at[x][y] = b;
}

static int try_swap(double heat, int reach)
{
    static float changed_cost[2 * INPUTS + 2];
    static struct box changed_box[2 * INPUTS + 2];
    static int changed[2 * INPUTS + 2];
    int a = chance(blocks), count = 0;
    int x = block[a].x + (int)chance(2 * reach + 1) - reach, y = block[a].y + (int)chance(2 * reach + 1) - reach;
    if (x < 0 || y < 0 || x >= side || y >= side || at[x][y] == a)
        return 0;
    int b = at[x][y];
    double delta = 0;
    swap(a, b);
    for (int of = 0; of < 2; of++)
        for (int i = 0; i <= INPUTS; i++) {
            int n = block[of ? b : a].nets[i], known = 0;
            for (int k = 0; k < count; k++)
                known |= changed[k] == n;
            if (known)
                continue;
            changed_cost[count] = measure(&net[n], &changed_box[count]);
            delta += changed_cost[count] - net_cost[n];
            changed[count++] = n;
        }
    if (delta > 0 && chance(1 << 20) > (1 << 20) * exp(-delta / heat)) {
        swap(a, b);
        return 0;
    }
    for (int k = 0; k < count; k++)
        net_cost[changed[k]] = changed_cost[k], boxes[changed[k]] = changed_box[k];
    return 1;
}

/* From SPEC's first temperature to its last one, by its factor. */
static void place(long moves)
{
    double reach = side;
    for (int n = 0; n < blocks; n++)
        net_cost[n] = measure(&net[n], &boxes[n]);
    long each = moves / 115 + 1;
    for (double heat = 5; heat > 0.005; heat *= 0.9412) {
        long taken = 0;
        for (long i = 0; i < each; i++)
            taken += try_swap(heat, (int)reach);
        reach *= 1 - 0.44 + (double)taken / each;
        reach = reach < 1 ? 1 : reach > side ? side : reach;
    }
}

static int source(int tile) { return tile * (3 + INPUTS); }
static int sink(int tile) { return source(tile) + 1; }
static int output(int tile) { return source(tile) + 2; }
static int input(int tile, int pin) { return source(tile) + 3 + pin; }
static int across(int x, int y, int track) { return blocks * (3 + INPUTS) + (y * side + x) * TRACKS + track; }
static int along(int x, int y, int track) { return across(0, side + 1, 0) + (x * side + y) * TRACKS + track; }

static void finish(int number, int type, int x, int y, int track, int *to, int edges, int capacity)
{
    struct wire *w = &wire[number];
    *w = (struct wire) { x, x, y, y, track, edges, 0, capacity, type, chunk(edges * sizeof(int)), chunk(edges * sizeof(short)), 1, 1 };
    for (int i = 0; i < edges; i++)
        w->to[i] = to[i], w->switches[i] = 0;
}

static void graph(void)
{
    int to[64];
    wires = along(side + 1, 0, 0);
    wire = calloc(wires, sizeof *wire);
    cost = malloc(wires * sizeof *cost);
    for (int tile = 0; tile < blocks; tile++) {
        int x = tile % side, y = tile / side, n = 0;
        finish(source(tile), 0, x, y, 0, (int[]) { output(tile) }, 1, 1);
        finish(sink(tile), 1, x, y, 0, to, 0, INPUTS);
        for (int t = 0; t < TRACKS; t++)
            to[n++] = across(x, y, t), to[n++] = along(x + 1, y, t);
        finish(output(tile), 2, x, y, 0, to, n, 1);
        for (int pin = 0; pin < INPUTS; pin++)
            finish(input(tile, pin), 3, x, y, pin, (int[]) { sink(tile) }, 1, 1);
    }
    for (int y = 0; y <= side; y++)
        for (int x = 0; x < side; x++)
            for (int t = 0; t < TRACKS; t++) {
                int n = 0;
                for (int d = -1; d <= 1; d += 2)
                    if (x + d >= 0 && x + d < side)
                        to[n++] = across(x + d, y, t);
                for (int d = 0; d < 4; d++)
                    if (y - d / 2 >= 0 && y - d / 2 < side)
                        to[n++] = along(x + d % 2, y - d / 2, t);
                if (y < side)
                    to[n++] = input(y * side + x, 0);
                if (y > 0)
                    to[n++] = input((y - 1) * side + x, 1);
                finish(across(x, y, t), 4, x, y, t, to, n, 1);
            }
    for (int x = 0; x <= side; x++)
        for (int y = 0; y < side; y++)
            for (int t = 0; t < TRACKS; t++) {
                int n = 0;
                for (int d = -1; d <= 1; d += 2)
                    if (y + d >= 0 && y + d < side)
                        to[n++] = along(x, y + d, t);
                for (int d = 0; d < 4; d++)
                    if (x - d / 2 >= 0 && x - d / 2 < side)
                        to[n++] = across(x - d / 2, y + d % 2, t);
                if (x < side)
                    to[n++] = input(y * side + x, 2);
                if (x > 0)
                    to[n++] = input(y * side + x - 1, 3);
                finish(along(x, y, t), 5, x, y, t, to, n, 1);
            }
    for (int w = 0; w < wires; w++)
        cost[w] = (struct cost) { -1, -1, 1, 1, INFINITY, INFINITY, 0 };
}

static void push(int number, int from, float so_far)
{
    struct step *s = spare;
    if (s)
        spare = s->next;
    else
        s = chunk(sizeof *s);
    *s = (struct step) { number, from, so_far, 0 };
    if (heaped + 1 >= room)
        heap = realloc(heap, (room = room ? 2 * room : 1024) * sizeof *heap);
    int i = ++heaped;
    for (; i > 1 && heap[i / 2]->cost > so_far; i /= 2)
        heap[i] = heap[i / 2];
    heap[i] = s;
}

static struct step *pop(void)
{
    struct step *top = heap[1], *last = heap[heaped--];
    int i = 1;
    for (int k; (k = 2 * i) <= heaped; i = k) {
        k += k < heaped && heap[k + 1]->cost < heap[k]->cost;
        if (last->cost <= heap[k]->cost)
            break;
        heap[i] = heap[k];
    }
    heap[i] = last;
    return top;
}

static void use(int number, int by, float present)
{
    struct wire *w = &wire[number];
    w->occupied += by;
    cost[number].present = w->occupied < w->capacity ? 1 : 1 + (w->occupied + 1 - w->capacity) * present;
}

static struct link *modified;

static void expand(int number, struct box *box, float so_far)
{
    struct wire *w = &wire[number];
    for (int i = 0; i < w->edges; i++) {
        int to = w->to[i];
        struct wire *next = &wire[to];
        if (next->right < box->left || next->left > box->right || next->high < box->low || next->low > box->high)
            continue;
        /* Only the pins of blocks that the net reaches. */
        if (next->type == 3 && !cost[next->to[0]].target)
            continue;
        float ahead = so_far + cost[to].present * cost[to].past;
        if (ahead < cost[to].path)
            push(to, number, ahead);
    }
}

static void route(int n, float present, struct link **trace)
{
    struct box box = boxes[n];
    box.left -= MARGIN, box.right += MARGIN, box.low -= MARGIN, box.high += MARGIN;
    for (struct link *l = *trace, *next; l; l = next)
        next = l->next, use(l->wire, -1, present), free(l);
    *trace = 0;
    int from = source(block[net[n].blocks[0]].y * side + block[net[n].blocks[0]].x);
    for (int i = 1; i < net[n].pins; i++)
        cost[sink(block[net[n].blocks[i]].y * side + block[net[n].blocks[i]].x)].target++;
    push(from, -1, 0);
    for (int i = 1; i < net[n].pins; i++) {
        int found = -1;
        while (heaped && found < 0) {
            struct step *s = pop();
            int w = s->wire;
            if (s->cost < cost[w].path) {
                struct link *l = chunk(sizeof *l);
                *l = (struct link) { w, modified };
                modified = l;
                cost[w].path = s->cost;
                cost[w].from = s->from;
                if (cost[w].target)
                    found = w;
                else
                    expand(w, &box, s->cost);
            }
            s->next = spare, spare = s;
        }
        if (found < 0)
            break;
        cost[found].target--;
        /* Back to the source, or to a wire that the net has already. */
        for (int w = found; w >= 0 && (i == 1 || cost[w].from >= 0); w = cost[w].from) {
            struct link *l = malloc(sizeof *l);
            *l = (struct link) { w, *trace };
            *trace = l;
            use(w, 1, present);
        }
        for (struct link *l = *trace; l && l->wire != found; l = l->next)
            cost[l->wire].path = INFINITY, push(l->wire, -1, 0);
        cost[found].path = INFINITY;
    }
    while (heaped) {
        struct step *s = pop();
        s->next = spare, spare = s;
    }
    for (; modified; modified = modified->next) {
        cost[modified->wire].path = INFINITY;
        cost[modified->wire].target = 0;
    }
}

int main(int count, char **words)
{
    if (count < 4)
        return 1;
    side = atoi(words[1]), blocks = side * side;
    circuit();
    graph();
    place(atol(words[2]));
    struct link **trace = calloc(blocks, sizeof *trace);
    long last = atol(words[3]), all = 0;
    for (long i = 0; i < last; i++) {
        int n = i * 1009 % blocks;
        route(n, 4 * pow(2, i / blocks), &trace[n]);
    }
    for (int w = 0; w < wires; w++)
        all += wire[w].occupied;
    printf("%d wires, %ld in use\n", wires, all);
    return 0;
}
