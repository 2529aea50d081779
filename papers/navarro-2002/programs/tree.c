/* Tree of Navarro et al. 2002, section 6.2: random operations on a red-black tree of 50,000 nodes, which point to records of
   128 bytes: 50 % look-ups, 24 % insertions, 24 % deletions, 2 % traversals. Look-ups and traversals read half of a record.
   The tree is glibc's tsearch. tree OPERATIONS */
#include <search.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NODES 50000

struct record {
    uint64_t key, words[15];
};

static uint64_t state = 1, sum;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static int compare(const void *a, const void *b)
{
    const struct record *left = a, *right = b;
    return (left->key > right->key) - (left->key < right->key);
}

static void read_half(const struct record *record)
{
    for (int i = 0; i < 8; i++)
        sum += record->words[i];
}

static void visit(const void *node, VISIT order, int depth)
{
    (void)depth;
    if (order == postorder || order == leaf)
        read_half(*(struct record *const *)node);
}

/* The keys in the tree, so that look-ups and deletions find theirs. */
static uint64_t keys[2 * NODES];
static int count;
static void *root;

static void insert(void)
{
    struct record *record = malloc(sizeof *record);
    memset(record, 1, sizeof *record);
    record->key = draw();
    if (*(struct record **)tsearch(record, &root, compare) == record)
        keys[count++] = record->key;
}

int main(int words, char **arguments)
{
    long operations = words > 1 ? atol(arguments[1]) : 1000;
    while (count < NODES)
        insert();
    for (long i = 0; i < operations; i++) {
        unsigned kind = draw() % 100;
        int at = draw() % count;
        struct record wanted = {.key = keys[at]};
        if (kind < 50) {
            read_half(*(struct record **)tfind(&wanted, &root, compare));
        } else if (kind < 74 && count < 2 * NODES) {
            insert();
        } else if (kind < 98) {
            struct record *record = *(struct record **)tfind(&wanted, &root, compare);
            tdelete(&wanted, &root, compare);
            free(record);
            keys[at] = keys[--count];
        } else {
            twalk(root, visit);
        }
    }
    return sum == 42;
}
