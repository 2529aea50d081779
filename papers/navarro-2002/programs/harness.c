/* In place of gzip and bzip2 of SPEC CPU2000. Both hold three files in memory, as SPEC's harness does: the input, repeated
 * until it has as many megabytes as asked for, the compressed one, and the one that comes of it. SPEC's compresses and
 * decompresses all of the input at several levels; this one does so with some kilobytes of it, at each level.
 * Usage: harness gzip|bzip2 INPUT MEGABYTES KILOBYTES LEVEL... */
#include <bzlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { BLOCK = 32768 };

struct file { size_t limit, length; char *data; };

static struct file allocate(size_t limit)
{
    struct file file = { limit, 0, malloc(limit) };
    if (!file.data)
        exit(1);
    /* The harness writes to each of its pages before the program runs. */
    for (size_t i = 0; i < limit; i += 1024)
        file.data[i] = 0;
    return file;
}

static void fill(struct file *file, const char *name)
{
    FILE *in = fopen(name, "rb");
    if (!in)
        exit(1);
    file->length = fread(file->data, 1, file->limit, in);
    fclose(in);
    for (size_t i = file->length, part = i; part && i < file->limit; i += part) {
        part = part < file->limit - i ? part : file->limit - i;
        memcpy(file->data + i, file->data, part);
    }
}

/* Like gzip, whose input and output go through buffers of 32 KB. */
static void gzip(struct file *from, struct file *to, int level, int back)
{
    static char in[BLOCK], out[BLOCK];
    z_stream z = { 0 };
    size_t read = 0;
    int status = back ? inflateInit(&z) : deflateInit(&z, level);
    to->length = 0;
    while (status == Z_OK) {
        if (!z.avail_in) {
            size_t take = from->length - read < BLOCK ? from->length - read : BLOCK;
            memcpy(in, from->data + read, take);
            read += take;
            z.next_in = (unsigned char *)in;
            z.avail_in = take;
        }
        z.next_out = (unsigned char *)out;
        z.avail_out = BLOCK;
        int flush = read == from->length ? Z_FINISH : Z_NO_FLUSH;
        status = back ? inflate(&z, Z_NO_FLUSH) : deflate(&z, flush);
        memcpy(to->data + to->length, out, BLOCK - z.avail_out);
        to->length += BLOCK - z.avail_out;
    }
    if (status != Z_STREAM_END)
        exit(2);
    back ? inflateEnd(&z) : deflateEnd(&z);
}

static void bzip2(struct file *from, struct file *to, int level, int back)
{
    unsigned length = to->limit;
    int status = back ? BZ2_bzBuffToBuffDecompress(to->data, &length, from->data, from->length, 0, 0)
                      : BZ2_bzBuffToBuffCompress(to->data, &length, from->data, from->length, level, 0, 0);
    if (status != BZ_OK)
        exit(3);
    to->length = length;
}

int main(int count, char **words)
{
    if (count < 6)
        return 1;
    void (*code)(struct file *, struct file *, int, int) = words[1][0] == 'g' ? gzip : bzip2;
    size_t limit = (size_t)atoi(words[3]) << 20;
    struct file input = allocate(limit), packed = allocate(limit), output = allocate(limit);
    fill(&input, words[2]);
    input.length = (size_t)atoi(words[4]) << 10;
    for (int i = 5; i < count; i++) {
        code(&input, &packed, atoi(words[i]), 0);
        code(&packed, &output, 0, 1);
        for (size_t k = 0; k < input.length; k += 1024)
            if (input.data[k] != output.data[k])
                return 4;
        printf("level %s: %zu bytes\n", words[i], packed.length);
    }
    return 0;
}
