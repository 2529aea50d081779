/* LZW as SPEC95's compress has it: a text in memory is compressed, expanded and compared, ROUNDS times. Codes grow from 9 to
 * 16 bits, a hash table of 69001 holds them, and it is cleared when it is full and compression gets worse. Bytes come and go
 * one by one, through functions. compress CHARACTERS ROUNDS */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BITS = 16, CODES = 1 << BITS, TABLE = 69001, SHIFT = 8, CLEAR = 256, FIRST = 257, LOWEST = 9, GAP = 10000 };

static int table[TABLE];
static unsigned short codes[TABLE];
static const unsigned char *source;
static unsigned char *target;
static long left, read_bytes, written;
static int bits, greatest, next_code, cleared;
static unsigned char packed[BITS];
static int packed_bits, packed_size;

static int get(void)
{
    if (left <= 0)
        return -1;
    left--;
    read_bytes++;
    return *source++;
}

static void put(int byte)
{
    *target++ = byte;
    written++;
}

static void start(const unsigned char *in, long size, unsigned char *out)
{
    source = in, left = size, target = out;
    read_bytes = written = 0;
    bits = LOWEST, greatest = (1 << bits) - 1, next_code = FIRST, cleared = 0;
    packed_bits = packed_size = 0;
}

/* After a code: all codes of a number of bits fill whole groups of eight. */
static int grows(void)
{
    if (cleared)
        bits = LOWEST, cleared = 0;
    else if (next_code > greatest && bits < BITS)
        bits++;
    else
        return 0;
    greatest = bits == BITS ? CODES : (1 << bits) - 1;
    return 1;
}

static void flush(void)
{
    for (int i = 0; i < (packed_bits + 7) / 8; i++)
        put(packed[i]);
    packed_bits = 0;
}

static void put_code(int code)
{
    int at = packed_bits >> 3, offset = packed_bits & 7, rest = bits;
    if (offset) {
        packed[at] = (packed[at] & ((1 << offset) - 1)) | code << offset;
        code >>= 8 - offset;
        rest -= 8 - offset;
        at++;
    }
    for (; rest >= 8; rest -= 8, code >>= 8)
        packed[at++] = code;
    if (rest > 0)
        packed[at] = code;
    packed_bits += bits;
    if (packed_bits == bits * 8)
        flush();
    if (next_code > greatest || cleared) {
        if (packed_bits > 0) {
            packed_bits = bits * 8;
            flush();
        }
        grows();
    }
}

static int get_code(void)
{
    if (cleared || next_code > greatest || packed_bits >= packed_size) {
        grows();
        for (packed_size = 0; packed_size < bits; packed_size++) {
            int byte = get();
            if (byte < 0)
                break;
            packed[packed_size] = byte;
        }
        if (packed_size == 0)
            return -1;
        packed_bits = 0;
        packed_size = packed_size * 8 - (bits - 1);
    }
    int at = packed_bits >> 3, offset = packed_bits & 7, code = packed[at++] >> offset, have = 8 - offset;
    for (; bits - have >= 8; have += 8)
        code |= packed[at++] << have;
    if (have < bits)
        code |= (packed[at] & ((1 << (bits - have)) - 1)) << have;
    packed_bits += bits;
    return code & ((1 << bits) - 1);
}

static long compress(const unsigned char *in, long size, unsigned char *out)
{
    long ratio = 0, check = GAP;
    int byte;
    start(in, size, out);
    memset(table, -1, sizeof table);
    int prefix = get();
    while ((byte = get()) >= 0) {
        int key = (byte << BITS) + prefix, at = byte << SHIFT ^ prefix, step = at ? TABLE - at : 1;
        while (table[at] != key && table[at] >= 0)
            if ((at -= step) < 0)
                at += TABLE;
        if (table[at] == key) {
            prefix = codes[at];
            continue;
        }
        put_code(prefix);
        prefix = byte;
        if (next_code < CODES) {
            codes[at] = next_code++;
            table[at] = key;
        } else if (read_bytes >= check) {
            check = read_bytes + GAP;
            long now = (read_bytes << 8) / written;
            if (now > ratio) {
                ratio = now;
            } else {
                ratio = 0;
                memset(table, -1, sizeof table);
                next_code = FIRST, cleared = 1;
                put_code(CLEAR);
            }
        }
    }
    put_code(prefix);
    flush();
    return written;
}

/* The tables of compression hold prefixes and last bytes of codes, and the bytes of the present one, last first. */
static long expand(const unsigned char *in, long size, unsigned char *out)
{
    unsigned char *last = (unsigned char *)table, *stack = last + CODES, *top = stack;
    start(in, size, out);
    for (int code = 0; code < 256; code++)
        codes[code] = 0, last[code] = code;
    int old = get_code(), byte = old, code;
    put(byte);
    while ((code = get_code()) >= 0) {
        if (code == CLEAR) {
            next_code = FIRST, cleared = 1;
            if ((old = get_code()) < 0)
                break;
            byte = old;
            put(byte);
            continue;
        }
        int present = code;
        if (code >= next_code) {
            *top++ = byte;
            code = old;
        }
        for (; code >= 256; code = codes[code])
            *top++ = last[code];
        *top++ = byte = last[code];
        do
            put(*--top);
        while (top > stack);
        if (next_code < CODES) {
            codes[next_code] = old;
            last[next_code++] = byte;
        }
        old = present;
    }
    return written;
}

static unsigned next(unsigned *seed) { return *seed = *seed * 1103515245u + 12345u; }

int main(int argc, char **argv)
{
    long size = atol(argv[1]), squeezed = 0;
    int rounds = atoi(argv[2]);
    unsigned char *text = malloc(size), *packed_text = malloc(2 * size), *again = malloc(size);
    unsigned seed = 1;
    /* Letters of unequal frequency, as the benchmark makes its own text. */
    for (long i = 0; i < size; i++) {
        unsigned a = next(&seed) >> 16 & 31, b = next(&seed) >> 16 & 31;
        text[i] = 'a' + (a < b ? a : b);
    }
    for (int round = 0; round < rounds; round++) {
        squeezed = compress(text, size, packed_text);
        if (expand(packed_text, squeezed, again) != size)
            return 1;
        for (long i = 0; i < size; i++)
            if (text[i] != again[i])
                return 1;
    }
    printf("%ld bytes\n", squeezed);
    return 0;
}
