/* Fills a memfd from a mapping that cannot have huge pages, maps it, and has it collapsed. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
enum { PAGE = 4096, HUGE = 2 << 20 };
static void touch(volatile char *area, long bytes, int write) {
    for (long at = 0; at < bytes; at += PAGE) { if (write) area[at] += 1; else (void)area[at]; }
}
int main(void) {
    long bytes = 6 * HUGE;
    int memory = memfd_create("collapse", 0);
    if (memory < 0 || ftruncate(memory, bytes)) return 1;
    char *room = mmap(0, bytes + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return 1;
    char *area = (char *)(((unsigned long)room + HUGE - 1) & ~(HUGE - 1UL));
    if (mmap(area, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0) != area) return 1;
    madvise(area, bytes, MADV_NOHUGEPAGE);
    touch(area, 4 * HUGE + HUGE / 2, 1);
    /* Advice that permits collapsing, whatever the settings of shared memory. */
    madvise(area, bytes, MADV_HUGEPAGE);
    /* The kernel refuses to collapse the last extent, of which nothing is in memory. */
    if (madvise(area, 5 * HUGE, MADV_COLLAPSE)) { perror("MADV_COLLAPSE"); return 3; }
    touch(area, bytes, 1);
    pid_t child = fork();
    if (child == 0) { touch(area, bytes, 0); _exit(0); }
    int status;
    return waitpid(child, &status, 0) != child || status;
}
