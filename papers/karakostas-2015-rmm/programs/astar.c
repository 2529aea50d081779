/* Like astar of SPEC 2006: path-finding over a large map of terrain, with a heap of open nodes.
 *     astar SIDE SEARCHES STEPS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cell {
    uint32_t cost, mark;
    uint16_t from, terrain;
};

static uint64_t state = 5;

static uint32_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 32;
}

static struct {
    uint32_t key, at;
} *heap;
static uint32_t size;

static void push(uint32_t key, uint32_t at)
{
    uint32_t i = size++;
    for (; i && heap[(i - 1) / 2].key > key; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i].key = key;
    heap[i].at = at;
}

static uint32_t pop(void)
{
    uint32_t at = heap[0].at, i = 0, child;
    size--;
    while ((child = 2 * i + 1) < size) {
        if (child + 1 < size && heap[child + 1].key < heap[child].key)
            child++;
        if (heap[size].key <= heap[child].key)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = heap[size];
    return at;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    uint32_t side = atoi(argv[1]), searches = atoi(argv[2]), steps = atoi(argv[3]);
    struct cell *map = malloc(sizeof *map * side * side);
    heap = malloc(sizeof *heap * 8 * steps);
    for (uint64_t i = 0; i < (uint64_t)side * side; i++)
        map[i] = (struct cell){ 0, 0, 0, 1 + (i * 2654435761u >> 28) };
    uint64_t total = 0;
    for (uint32_t search = 1; search <= searches; search++) {
        uint32_t goal_x = 1 + next() % (side - 2), goal_y = 1 + next() % (side - 2);
        size = 0;
        uint32_t start = (1 + next() % (side - 2)) * side + 1 + next() % (side - 2);
        map[start].cost = 0;
        map[start].mark = search;
        push(0, start);
        for (uint32_t step = 0; step < steps && size; step++) {
            uint32_t at = pop(), x = at % side, y = at / side;
            if ((x == goal_x && y == goal_y) || !x || !y || x == side - 1 || y == side - 1)
                break;
            const int way[4] = { 1, -1, (int)side, -(int)side };
            for (int k = 0; k < 4; k++) {
                struct cell *cell = &map[at + way[k]];
                uint32_t cost = map[at].cost + cell->terrain;
                if (cell->mark == search && cell->cost <= cost)
                    continue;
                cell->mark = search;
                cell->cost = cost;
                cell->from = k;
                uint32_t ax = (at + way[k]) % side, ay = (at + way[k]) / side;
                push(cost + abs((int)ax - (int)goal_x) + abs((int)ay - (int)goal_y), at + way[k]);
            }
            total += map[at].cost;
        }
    }
    printf("%llu\n", (unsigned long long)total);
}
