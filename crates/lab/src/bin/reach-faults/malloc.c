/* Allocates, writes and frees 42 MB, five times. With malloc's header, that is a mapping of one page less than 42 MB: wherever it
   begins, it holds the same number of whole blocks of 64 KB, and of 2 MB. */
#include <stdlib.h>
#include <string.h>
enum { SIZE = (42 << 20) - 4096 - 32 };
int main(void) {
    for (int round = 0; round < 5; round++) {
        char *area = malloc(SIZE);
        if (!area) return 1;
        for (long at = 0; at < SIZE; at += 64) area[at] = round;
        volatile char sink = area[12345];
        (void)sink;
        free(area);
    }
    return 0;
}
