/* Like omnetpp of SPEC 2006: a discrete-event simulator of a network. Messages are allocated and freed one by one; a binary heap of
 * pointers orders them; modules keep queues.
 *     omnetpp MODULES MESSAGES EVENTS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct message {
    double time;
    uint32_t to, hops, size;
    struct message *next;
    char payload[96];
};

struct module {
    struct message *queue;
    uint32_t length, links[6];
    double busy;
    char name[64];
};

static uint64_t state = 11;

static uint32_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 32;
}

static struct message **heap;
static uint32_t size;

static void push(struct message *m)
{
    uint32_t at = size++;
    while (at && heap[(at - 1) / 2]->time > m->time) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = m;
}

static struct message *pop(void)
{
    struct message *first = heap[0], *last = heap[--size];
    uint32_t at = 0, child;
    while ((child = 2 * at + 1) < size) {
        if (child + 1 < size && heap[child + 1]->time < heap[child]->time)
            child++;
        if (last->time <= heap[child]->time)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    uint32_t modules = atoi(argv[1]), messages = atoi(argv[2]), events = atoi(argv[3]);
    struct module **module = malloc(modules * sizeof *module);
    for (uint32_t i = 0; i < modules; i++) {
        module[i] = calloc(1, sizeof **module);
        for (int k = 0; k < 6; k++)
            module[i]->links[k] = next() % modules;
    }
    heap = malloc((messages + 1) * sizeof *heap);
    for (uint32_t i = 0; i < messages; i++) {
        struct message *m = calloc(1, sizeof *m + next() % 64);
        m->to = next() % modules;
        m->time = next() / 1e6;
        push(m);
    }
    double delay = 0;
    for (uint32_t event = 0; event < events; event++) {
        struct message *m = pop();
        struct module *at = module[m->to];
        double now = m->time > at->busy ? m->time : at->busy;
        delay += now - m->time;
        at->busy = now + m->size % 7;
        at->length++;
        struct message *copy = malloc(sizeof *copy + next() % 64);
        memcpy(copy, m, sizeof *copy);
        copy->hops++;
        copy->to = at->links[next() % 6];
        copy->time = now + 1 + next() % 4096;
        free(m);
        push(copy);
    }
    printf("%g\n", delay);
}
