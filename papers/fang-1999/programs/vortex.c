/* An object-oriented database in memory: parts in an index by number, with links to other parts; lookups, traversals,
   insertions and deletions in turn. vortex PARTS OPERATIONS */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINKS = 3, FANOUT = 16 };

typedef struct Part {
    unsigned id, x, y, build;
    char type[16];
    unsigned to[LINKS];
    char text[64];
} Part;

/* A B+-tree of fixed height over part numbers: 16 children a node. */
typedef struct Node {
    unsigned used;
    void *child[FANOUT];
    unsigned low[FANOUT];
} Node;

static unsigned seed = 7;
static unsigned next(void) { return (seed = seed * 1664525u + 1013904223u) >> 8; }
static Node *root;
static int height = 5;

static void **slot(unsigned id, int make) {
    Node **at = &root;
    for (int level = height; level > 0; level--) {
        if (!*at) {
            if (!make)
                return 0;
            *at = calloc(1, sizeof(Node));
        }
        unsigned digit = id >> (4 * (level - 1)) & 15;
        (*at)->used |= 1u << digit;
        (*at)->low[digit] = id;
        at = (Node **)&(*at)->child[digit];
    }
    return (void **)at;
}

static Part *find(unsigned id) {
    void **at = slot(id, 0);
    return at ? *at : 0;
}

static void insert(unsigned id, unsigned range) {
    Part *part = malloc(sizeof *part);
    part->id = id;
    part->x = next();
    part->y = next();
    part->build = next() % 3650;
    snprintf(part->type, sizeof part->type, "type%u", next() % 10);
    memset(part->text, 'a' + id % 26, sizeof part->text);
    for (int i = 0; i < LINKS; i++)
        part->to[i] = next() % 10 ? (id + next() % 100) % range : next() % range;
    *slot(id, 1) = part;
}

static unsigned traverse(unsigned id, int depth) {
    Part *part = find(id);
    if (!part)
        return 0;
    unsigned sum = part->x ^ part->y;
    if (depth > 0)
        for (int i = 0; i < LINKS; i++)
            sum += traverse(part->to[i], depth - 1);
    return sum;
}

int main(int argc, char **argv) {
    unsigned parts = atoi(argv[1]), operations = atoi(argv[2]), sum = 0;
    for (unsigned id = 0; id < parts; id++)
        insert(id, parts);
    for (unsigned n = 0; n < operations; n++) {
        unsigned id = next() % parts;
        switch (n % 4) {
        case 0:
        case 1: {
            Part *part = find(id);
            sum += part ? part->build + (unsigned char)part->text[n % 64] : 1;
            break;
        }
        case 2:
            sum += traverse(id, 4);
            break;
        default: {
            void **at = slot(id, 1);
            free(*at);
            *at = 0;
            insert(id, parts);
        }
        }
    }
    printf("%u\n", sum);
    return 0;
}
