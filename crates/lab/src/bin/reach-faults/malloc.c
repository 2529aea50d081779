/* Allocates, writes and frees 40 MB, five times. */
#include <stdlib.h>
#include <string.h>
int main(void) {
    for (int round = 0; round < 5; round++) {
        char *area = malloc(40 << 20);
        if (!area) return 1;
        for (long at = 0; at < 40 << 20; at += 64) area[at] = round;
        volatile char sink = area[12345];
        (void)sink;
        free(area);
    }
    return 0;
}
