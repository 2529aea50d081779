/*
 * lz: a small LZ77 compressor. Pleasant to compile, pleasant to trace.
 *
 *     cc -O2 -o lz lz.c
 *     ./lz < file > file.lz        compress
 *     ./lz -d < file.lz > file     decompress
 *     ./lz -t [MEGABYTES]          compress and decompress made-up text, and say how it went
 *
 * Format. The length of the input in eight bytes, lowest first; then tokens. A token is a byte: its high four bits say
 * how many literals follow, its low four bits how long the match after them is, less MIN_MATCH. Fifteen in either means
 * that more bytes follow, each to be added, up to and with the first that is not 255. Then the literals, then two bytes
 * of distance, lowest first. The last token of a stream has no match.
 *
 * The search keeps, for each hash of four bytes, the last place where it was seen, and for each place the one before:
 * chains through the window. That is what makes it worth tracing: the tables are larger than a TLB reaches with small
 * pages, and are used at random.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MIN_MATCH = 4,
    WINDOW = 1 << 16,
    MAX_DISTANCE = WINDOW - 1,
    HASH_BITS = 17,
    HASH_SIZE = 1 << HASH_BITS,
    CHAIN_LIMIT = 48,   /* how many candidates a search looks at */
    GOOD_ENOUGH = 96,   /* a match of this length ends the search */
    MORE = 15,          /* in a nibble: more bytes follow */
    HEADER = 8
};

struct buffer {
    uint8_t *data;
    size_t len;
    size_t cap;
};

static void die(const char *what)
{
    fprintf(stderr, "lz: %s\n", what);
    exit(1);
}

static void reserve(struct buffer *b, size_t more)
{
    if (b->cap - b->len >= more)
        return;
    size_t cap = b->cap ? b->cap : 4096;
    while (cap - b->len < more)
        cap *= 2;
    uint8_t *data = realloc(b->data, cap);
    if (!data)
        die("out of memory");
    b->data = data;
    b->cap = cap;
}

static void put(struct buffer *b, uint8_t byte)
{
    reserve(b, 1);
    b->data[b->len++] = byte;
}

static void append(struct buffer *b, const uint8_t *from, size_t len)
{
    if (len == 0)
        return;
    reserve(b, len);
    memcpy(b->data + b->len, from, len);
    b->len += len;
}

/* Search ---------------------------------------------------------------- */

struct matcher {
    const uint8_t *in;
    size_t len;
    int64_t *head;      /* by hash: the last place, or -1 */
    int64_t *prev;      /* by place modulo WINDOW: the place before with the same hash */
};

struct match {
    size_t len;         /* 0: none */
    size_t distance;
};

static uint32_t read32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t hash(uint32_t v)
{
    return (v * 2654435761u) >> (32 - HASH_BITS);
}

static void matcher_init(struct matcher *m, const uint8_t *in, size_t len)
{
    m->in = in;
    m->len = len;
    m->head = malloc(HASH_SIZE * sizeof *m->head);
    m->prev = malloc(WINDOW * sizeof *m->prev);
    if (!m->head || !m->prev)
        die("out of memory");
    for (size_t i = 0; i < HASH_SIZE; i++)
        m->head[i] = -1;
    for (size_t i = 0; i < WINDOW; i++)
        m->prev[i] = -1;
}

static void matcher_free(struct matcher *m)
{
    free(m->head);
    free(m->prev);
}

static void insert(struct matcher *m, size_t at)
{
    if (at + MIN_MATCH > m->len)
        return;
    uint32_t h = hash(read32(m->in + at));
    m->prev[at % WINDOW] = m->head[h];
    m->head[h] = (int64_t)at;
}

static size_t common(const uint8_t *a, const uint8_t *b, const uint8_t *end)
{
    const uint8_t *start = b;
    while (b < end && *a == *b) {
        a++;
        b++;
    }
    return (size_t)(b - start);
}

static struct match search(const struct matcher *m, size_t at)
{
    struct match best = {0, 0};
    if (at + MIN_MATCH > m->len)
        return best;
    const uint8_t *here = m->in + at;
    const uint8_t *end = m->in + m->len;
    int64_t place = m->head[hash(read32(here))];
    for (int tries = CHAIN_LIMIT; place >= 0 && tries > 0; tries--) {
        size_t distance = at - (size_t)place;
        if (distance > MAX_DISTANCE)
            break;
        const uint8_t *there = m->in + place;
        /* Cannot be longer unless it agrees where the best one ends. */
        if (best.len == 0 || (at + best.len < m->len && there[best.len] == here[best.len])) {
            size_t len = common(there, here, end);
            if (len >= MIN_MATCH && len > best.len) {
                best.len = len;
                best.distance = distance;
                if (len >= GOOD_ENOUGH)
                    break;
            }
        }
        int64_t next = m->prev[(size_t)place % WINDOW];
        if (next >= place)
            break;      /* overwritten: the chain has left the window */
        place = next;
    }
    return best;
}

/* Compression ------------------------------------------------------------ */

static void put_rest(struct buffer *out, size_t n)
{
    for (; n >= 255; n -= 255)
        put(out, 255);
    put(out, (uint8_t)n);
}

static void put_token(struct buffer *out, const uint8_t *literals, size_t count, struct match match)
{
    size_t extra = match.len ? match.len - MIN_MATCH : 0;
    uint8_t high = count < MORE ? (uint8_t)count : MORE;
    uint8_t low = extra < MORE ? (uint8_t)extra : MORE;
    put(out, (uint8_t)(high << 4 | low));
    if (high == MORE)
        put_rest(out, count - MORE);
    append(out, literals, count);
    if (!match.len)
        return;
    if (low == MORE)
        put_rest(out, extra - MORE);
    put(out, (uint8_t)match.distance);
    put(out, (uint8_t)(match.distance >> 8));
}

static struct buffer compress(const uint8_t *in, size_t len)
{
    struct buffer out = {0};
    for (int i = 0; i < HEADER; i++)
        put(&out, (uint8_t)((uint64_t)len >> (8 * i)));
    struct matcher m;
    matcher_init(&m, in, len);
    size_t at = 0, literals = 0;
    while (at < len) {
        struct match match = search(&m, at);
        insert(&m, at);
        if (!match.len) {
            at++;
            continue;
        }
        /* Lazy: a byte later there may be a longer one. */
        if (match.len < GOOD_ENOUGH) {
            struct match later = search(&m, at + 1);
            if (later.len > match.len + 1) {
                at++;
                match = later;
                insert(&m, at);
            }
        }
        put_token(&out, in + literals, at - literals, match);
        for (size_t i = 1; i < match.len; i++)
            insert(&m, at + i);
        at += match.len;
        literals = at;
    }
    struct match none = {0, 0};
    put_token(&out, in + literals, len - literals, none);
    matcher_free(&m);
    return out;
}

/* Decompression ---------------------------------------------------------- */

struct reader {
    const uint8_t *at;
    const uint8_t *end;
};

static uint8_t get(struct reader *r)
{
    if (r->at == r->end)
        die("the input ends too early");
    return *r->at++;
}

static size_t get_count(struct reader *r, size_t nibble)
{
    if (nibble < MORE)
        return nibble;
    size_t n = nibble;
    uint8_t byte;
    do {
        byte = get(r);
        n += byte;
    } while (byte == 255);
    return n;
}

static struct buffer decompress(const uint8_t *in, size_t len)
{
    struct reader r = {in, in + len};
    uint64_t total = 0;
    for (int i = 0; i < HEADER; i++)
        total |= (uint64_t)get(&r) << (8 * i);
    struct buffer out = {0};
    for (;;) {
        uint8_t token = get(&r);
        size_t count = get_count(&r, token >> 4);
        if (count > (size_t)(r.end - r.at))
            die("the input ends within literals");
        append(&out, r.at, count);
        r.at += count;
        if (r.at == r.end)
            break;
        size_t match = get_count(&r, token & 15) + MIN_MATCH;
        size_t distance = get(&r);
        distance |= (size_t)get(&r) << 8;
        if (distance == 0 || distance > out.len)
            die("a match begins before the text does");
        if (match > total - out.len)
            die("a match goes beyond the text");
        reserve(&out, match);
        /* Byte by byte: source and destination may overlap, and then the match repeats itself. */
        for (size_t i = 0; i < match; i++, out.len++)
            out.data[out.len] = out.data[out.len - distance];
    }
    if (out.len != total)
        die("the text has not the length that was promised");
    return out;
}

/* The program ------------------------------------------------------------ */

static struct buffer read_all(FILE *file)
{
    struct buffer b = {0};
    for (;;) {
        reserve(&b, 1 << 16);
        size_t n = fread(b.data + b.len, 1, b.cap - b.len, file);
        if (n == 0)
            break;
        b.len += n;
    }
    if (ferror(file))
        die("cannot read the input");
    return b;
}

static uint32_t random_state = 1;

static uint32_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

/* Words of a made-up language, the short ones more often. */
static struct buffer make_text(size_t len)
{
    static const char *syllables[] = {"ka", "to", "ri", "men", "so", "ul", "pa", "shi", "e", "nor", "va", "li"};
    enum { WORDS = 4096, WORD_MAX = 16 };
    static char words[WORDS][WORD_MAX];
    for (int w = 0; w < WORDS; w++) {
        int count = 1 + (int)(next_random() % 4);
        for (int s = 0; s < count; s++)
            strcat(words[w], syllables[next_random() % (sizeof syllables / sizeof *syllables)]);
    }
    struct buffer text = {0};
    while (text.len < len) {
        uint32_t r = next_random() % WORDS;
        r = r * (next_random() % WORDS) / WORDS;
        append(&text, (const uint8_t *)words[r], strlen(words[r]));
        put(&text, next_random() % 12 ? ' ' : '\n');
    }
    text.len = len;
    return text;
}

static void self_test(size_t megabytes)
{
    struct buffer text = make_text(megabytes << 20);
    struct buffer packed = compress(text.data, text.len);
    struct buffer again = decompress(packed.data, packed.len);
    if (again.len != text.len || memcmp(again.data, text.data, text.len) != 0)
        die("what came back is not what went in");
    printf("%zu bytes -> %zu (%.1f %%) -> %zu, equal\n", text.len, packed.len,
           100.0 * (double)packed.len / (double)text.len, again.len);
    free(text.data);
    free(packed.data);
    free(again.data);
}

int main(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "-t") == 0) {
        long megabytes = argc >= 3 ? strtol(argv[2], NULL, 10) : 8;
        if (megabytes < 1 || megabytes > 1024)
            die("give 1 to 1024 megabytes");
        self_test((size_t)megabytes);
        return 0;
    }
    int unpack = argc == 2 && strcmp(argv[1], "-d") == 0;
    if (argc > 1 && !unpack)
        die("usage: lz [-d] < input > output, or lz -t [megabytes]");
    struct buffer in = read_all(stdin);
    struct buffer out = unpack ? decompress(in.data, in.len) : compress(in.data, in.len);
    if ((out.len && fwrite(out.data, 1, out.len, stdout) != out.len) || fflush(stdout) != 0)
        die("cannot write the output");
    free(in.data);
    free(out.data);
    return 0;
}
