/* A memcached that is started, filled and asked over the loopback, then ended: 95 % gets, uniform keys.
 *     cache-client SOCKET RECORDS BYTES REQUESTS MEMCACHED ARGS… */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int server;
static uint64_t state = 23;

static uint32_t next(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return state >> 33;
}

static void send_all(const char *text, size_t bytes)
{
    while (bytes) {
        ssize_t done = write(server, text, bytes);
        if (done <= 0)
            exit(1);
        text += done;
        bytes -= done;
    }
}

/* Reads until the answers to so many requests are there: each ends in a line STORED or END. */
static void answers(int wanted)
{
    static char text[1 << 16];
    static int matched;
    while (wanted) {
        ssize_t got = read(server, text, sizeof text);
        if (got <= 0)
            exit(1);
        for (ssize_t i = 0; i < got; i++) {
            /* Values hold no capital D. */
            matched = text[i] == 'D' ? 1 : matched && text[i] == '\r' ? 2 : 0;
            if (matched == 2)
                wanted--;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 6)
        return 2;
    int records = atoi(argv[2]), bytes = atoi(argv[3]), requests = atoi(argv[4]);
    pid_t child = fork();
    if (!child) {
        execvp(argv[5], argv + 5);
        _exit(127);
    }
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    snprintf(at.sun_path, sizeof at.sun_path, "%s", argv[1]);
    for (int tries = 0;; tries++) {
        server = socket(AF_UNIX, SOCK_STREAM, 0);
        if (!connect(server, (struct sockaddr *)&at, sizeof at))
            break;
        close(server);
        if (tries > 2000)
            return 1;
        usleep(10000);
    }
    char *value = malloc(bytes + 3), line[64];
    memset(value, 'v', bytes);
    memcpy(value + bytes, "\r\n", 3);
    for (int r = 0; r < records; r++) {
        send_all(line, sprintf(line, "set k%d 0 0 %d\r\n", r, bytes));
        send_all(value, bytes + 2);
        if (r % 16 == 15)
            answers(16);
    }
    for (int r = 0; r < requests; r += 16) {
        for (int k = 0; k < 16; k++) {
            uint32_t key = next() % (records & ~15);
            if (next() % 20) {
                send_all(line, sprintf(line, "get k%u\r\n", key));
            } else {
                send_all(line, sprintf(line, "set k%u 0 0 %d\r\n", key, bytes));
                send_all(value, bytes + 2);
            }
        }
        answers(16);
    }
    kill(child, SIGTERM);
    waitpid(child, 0, 0);
}
