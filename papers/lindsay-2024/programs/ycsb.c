/* A client of memcached over a socket in this folder: loads so many records of 8 KB, then asks for one at random again and
 * again, 95 % reads and 5 % writes, all keys alike (what YCSB calls uniform), on as many connections as it has threads. It
 * waits for the server, and ends after so many requests or when the server does.
 *     ycsb SOCKET RECORDS REQUESTS [THREADS] [--check]
 * A read that finds nothing is counted and left at that, as with YCSB: the server's memory decides how many do. With --check
 * every value that comes is compared with what belongs to its key; the exit status is 1 when one differs. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BYTES = 8192, MOST_THREADS = 64, PATIENCE = 1200 };

static const char *path;
static uint32_t records, requests;
static int threads = 1, checking;
static uint64_t found[MOST_THREADS], missed[MOST_THREADS], wrong[MOST_THREADS];

static uint64_t draw(uint64_t place)
{
    uint64_t z = (place + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* A connection, once there is a server; -1 when none comes in time. */
static int connected(void)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    for (int tries = 0; tries < PATIENCE * 10; tries++) {
        int server = socket(AF_UNIX, SOCK_STREAM, 0);
        if (!connect(server, (struct sockaddr *)&at, sizeof at))
            return server;
        close(server);
        usleep(100000);
    }
    return -1;
}

static int give(int server, const char *text, size_t bytes)
{
    while (bytes) {
        ssize_t done = send(server, text, bytes, MSG_NOSIGNAL);
        if (done <= 0)
            return 0;
        text += done;
        bytes -= done;
    }
    return 1;
}

/* The answer up to and with `end`; its length, or 0 when the server has gone. */
static size_t take(int server, char *text, size_t room, const char *end)
{
    size_t have = 0, tail = strlen(end);
    while (have < tail || memcmp(text + have - tail, end, tail)) {
        ssize_t got = have < room ? recv(server, text + have, room - have, 0) : 0;
        if (got <= 0)
            return 0;
        have += got;
        /* A miss is shorter than any value. */
        if (have == 5 && !memcmp(text, "END\r\n", 5))
            break;
    }
    return have;
}

static void fill(char *value, uint32_t key)
{
    memset(value, 'a' + key % 26, BYTES);
    value[snprintf(value, BYTES, "%u", key)] = ' ';
}

static int set(int server, uint32_t key, char *text)
{
    int line = snprintf(text, 64, "set user%llu 0 0 %d\r\n", (unsigned long long)draw(key), BYTES);
    fill(text + line, key);
    memcpy(text + line + BYTES, "\r\n", 2);
    return give(server, text, line + BYTES + 2) && take(server, text, 64, "\r\n");
}

static int get(int server, uint32_t key, char *text, int thread)
{
    static __thread char value[BYTES];
    int line = snprintf(text, 64, "get user%llu\r\n", (unsigned long long)draw(key));
    size_t have = give(server, text, line) ? take(server, text, BYTES + 128, "\r\nEND\r\n") : 0;
    if (!have)
        return 0;
    if (have == 5) {
        missed[thread]++;
        return 1;
    }
    found[thread]++;
    if (checking && have > BYTES + 7) {
        fill(value, key);
        wrong[thread] += memcmp(text + have - 7 - BYTES, value, BYTES) != 0;
    } else {
        wrong[thread] += checking;
    }
    return 1;
}

static int connection[MOST_THREADS];

static void *load(void *number)
{
    int thread = (int)(intptr_t)number;
    char text[BYTES + 256];
    connection[thread] = connected();
    for (uint32_t key = thread; connection[thread] >= 0 && key < records; key += threads)
        if (!set(connection[thread], key, text))
            break;
    return 0;
}

static void *ask(void *number)
{
    int thread = (int)(intptr_t)number;
    char text[BYTES + 256];
    uint64_t state = ~0ull / (thread + 3);
    for (uint32_t i = thread; connection[thread] >= 0 && i < requests; i += threads) {
        uint64_t random = draw(state++);
        uint32_t key = (random >> 32) % records;
        if (!(random % 20 ? get(connection[thread], key, text, thread) : set(connection[thread], key, text)))
            break;
    }
    return 0;
}

/* All threads do it, and all are done with it. */
static int all(void *(*work)(void *))
{
    pthread_t helper[MOST_THREADS];
    for (intptr_t t = 1; t < threads; t++)
        if (pthread_create(&helper[t], 0, work, (void *)t))
            return 0;
    work(0);
    for (int t = 1; t < threads; t++)
        pthread_join(helper[t], 0);
    return 1;
}

int main(int argc, char **argv)
{
    uint64_t sums[3] = { 0 };
    checking = argc > 1 && !strcmp(argv[argc - 1], "--check");
    argc -= checking;
    if (argc < 4 || atol(argv[2]) < 1) {
        fprintf(stderr, "usage: ycsb SOCKET RECORDS REQUESTS [THREADS] [--check]\n");
        return 2;
    }
    path = argv[1];
    records = atol(argv[2]);
    requests = atol(argv[3]);
    threads = argc > 4 ? atoi(argv[4]) : 1;
    threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    if (!all(load) || !all(ask))
        return 2;
    for (int t = 0; t < threads; t++)
        sums[0] += found[t], sums[1] += missed[t], sums[2] += wrong[t];
    printf("%llu found, %llu missed\n", (unsigned long long)sums[0], (unsigned long long)sums[1]);
    if (checking)
        puts(sums[2] || !sums[0] ? "wrong" : "right");
    return checking && (sums[2] || !sums[0]);
}
