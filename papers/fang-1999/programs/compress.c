/* LZW in memory, as compress does it: a hash table of 69001 codes of up to 16 bits, cleared when it is full.
   compress CHARACTERS ROUNDS */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CODES 65536
#define HASH 69001

static int key[HASH];
static unsigned short code[HASH];

static unsigned next(unsigned *seed) { return *seed = *seed * 1103515245u + 12345u; }

static size_t squeeze(const unsigned char *in, size_t n, unsigned short *out) {
    size_t written = 0;
    int free_code = 257, prefix = in[0];
    memset(key, -1, sizeof key);
    for (size_t i = 1; i < n; i++) {
        int c = in[i], wanted = c << 16 | prefix;
        int at = (c << 8 ^ prefix) % HASH, step = at ? HASH - at : 1;
        while (key[at] != wanted && key[at] >= 0)
            if ((at -= step) < 0)
                at += HASH;
        if (key[at] == wanted) {
            prefix = code[at];
            continue;
        }
        out[written++] = prefix;
        prefix = c;
        if (free_code < CODES) {
            code[at] = free_code++;
            key[at] = wanted;
        } else {
            memset(key, -1, sizeof key);
            free_code = 257;
        }
    }
    out[written++] = prefix;
    return written;
}

int main(int argc, char **argv) {
    size_t n = strtoul(argv[1], 0, 10);
    int rounds = atoi(argv[2]);
    unsigned char *in = malloc(n);
    unsigned short *out = malloc(2 * n);
    unsigned seed = 1;
    /* Letters of unequal frequency, as the benchmark makes its own text. */
    for (size_t i = 0; i < n; i++) {
        unsigned a = next(&seed) >> 16 & 31, b = next(&seed) >> 16 & 31;
        in[i] = 'a' + (a < b ? a : b);
    }
    size_t sum = 0;
    for (int round = 0; round < rounds; round++)
        sum += squeeze(in, n, out);
    printf("%zu codes\n", sum);
    return 0;
}
