/* Makes argv[1] calls to random functions in MB megabytes of code, and prints a sum. With argv[2], then waits for input.
 * A ? before the number multiplies it by 1 to 16, differently in each run. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

extern char code[];

int main(int argc, char **argv)
{
    uint64_t varies = argc > 1 && argv[1][0] == '?';
    uint64_t calls = argc > 1 ? strtoull(argv[1] + varies, 0, 0) : 1000000, x = 88172645463325252ull, sum = 0;
    if (varies) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        calls *= 1 + now.tv_nsec / 64 % 16;
    }
    for (uint64_t i = 0; i < calls; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        uint64_t page = (x >> 20) % (MB * 256);
        sum = ((uint64_t (*)(uint64_t))(code + page * 4096 + 64 + page * 7 % 61 * 64))(sum);
    }
    printf("%llx\n", (unsigned long long)sum);
    fflush(stdout);
    if (argc > 2)
        getchar();
    return 0;
}
