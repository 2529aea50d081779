/* Graph500: Kronecker edges (A, B, C = .57, .19, .19), made a graph in compressed rows, and breadth-first searches.
 *     bfs SCALE EDGES_PER_VERTEX SEARCHES */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 88172645463325252ull;

static uint32_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 32;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    int scale = atoi(argv[1]), searches = atoi(argv[3]);
    uint32_t vertices = 1u << scale;
    uint64_t edges = (uint64_t)vertices * atoi(argv[2]);
    uint32_t (*edge)[2] = malloc(edges * sizeof *edge);
    uint64_t *start = calloc(vertices + 2, sizeof *start);
    for (uint64_t e = 0; e < edges; e++) {
        uint32_t from = 0, to = 0;
        /* Two bits of the edge from each number drawn. */
        for (int bit = 0; bit < scale; bit += 2) {
            uint32_t random = next();
            for (int half = 0; half < 2 && bit + half < scale; half++, random >>= 16) {
                uint32_t part = random & 0xffff;
                from = from << 1 | (part >= 49807);
                to = to << 1 | ((part >= 37356 && part < 49807) || part >= 62259);
            }
        }
        edge[e][0] = from * 2654435761u & (vertices - 1);
        edge[e][1] = to * 2654435761u & (vertices - 1);
        start[edge[e][0] + 2]++;
        start[edge[e][1] + 2]++;
    }
    for (uint32_t v = 2; v < vertices + 2; v++)
        start[v] += start[v - 1];
    uint32_t *near = malloc(2 * edges * sizeof *near);
    for (uint64_t e = 0; e < edges; e++) {
        near[start[edge[e][0] + 1]++] = edge[e][1];
        near[start[edge[e][1] + 1]++] = edge[e][0];
    }
    free(edge);
    int32_t *parent = malloc(vertices * sizeof *parent);
    uint32_t *queue = malloc(vertices * sizeof *queue);
    uint64_t reached = 0;
    for (int search = 0; search < searches; search++) {
        memset(parent, 255, vertices * sizeof *parent);
        uint32_t root;
        do
            root = next() & (vertices - 1);
        while (start[root] == start[root + 1]);
        uint32_t head = 0, tail = 1;
        queue[0] = root;
        parent[root] = root;
        while (head < tail) {
            uint32_t v = queue[head++];
            for (uint64_t e = start[v]; e < start[v + 1]; e++)
                if (parent[near[e]] < 0) {
                    parent[near[e]] = v;
                    queue[tail++] = near[e];
                }
        }
        reached += tail;
    }
    printf("%llu\n", (unsigned long long)reached);
}
