/* Uses shared memory of several huge pages: a memfd, memory without a file, and a file in /dev/shm that has lost its name; or
   other files than memfd and that, by two arguments. Splits huge pages in each way, maps the first file a second time and
   privately, and touches all of it in a child. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
enum { PAGE = 4096, HUGE = 2 << 20 };
static void touch(volatile char *area, long bytes, int write) {
    for (long at = 0; at < bytes; at += PAGE) { if (write) area[at] += 1; else (void)area[at]; }
}
static char *map(long bytes, int flags, int file) {
    char *area = mmap(0, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    if (area == MAP_FAILED) _exit(2);
    return area;
}
int main(int argc, char **argv) {
    long bytes = 10 * HUGE + 5 * PAGE;
    char name[64];
    snprintf(name, sizeof name, "/dev/shm/reach-faults-shared-%d", getpid());
    char *unlinked = argc > 2 ? argv[2] : name;
    int file = open(unlinked, O_RDWR | O_CREAT | O_EXCL, 0600);
    int memory = argc > 2 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600) : memfd_create("faults", 0);
    if (file < 0 || memory < 0 || unlink(unlinked) || ftruncate(file, bytes) || ftruncate(memory, bytes)) return 1;
    char *heap = map(bytes, MAP_SHARED, memory);
    char *plain = map(bytes, MAP_SHARED | MAP_ANONYMOUS, -1);
    char *named = map(bytes, MAP_SHARED, file);
    madvise(plain, 4 * HUGE, MADV_HUGEPAGE);
    touch(heap, 3 * HUGE, 0);
    touch(heap, bytes, 1);
    touch(plain, bytes, 1);
    touch(named, 2 * HUGE, 1);
    char *again = map(bytes, MAP_SHARED, memory), *own = map(bytes, MAP_PRIVATE, memory);
    touch(again, bytes, 0);
    touch(own, bytes, 0);
    touch(own + 2 * HUGE, HUGE / 2, 1);
    touch(own, bytes, 0);
    munmap(heap, 9 * PAGE);
    mprotect(heap + HUGE, HUGE / 2, PROT_READ);
    madvise(heap + 3 * HUGE, PAGE, MADV_DONTNEED);
    madvise(plain + HUGE, HUGE, MADV_DONTNEED);
    touch(heap + 9 * PAGE, bytes - 9 * PAGE, 0);
    touch(plain, bytes, 1);
    pid_t child = fork();
    if (child == 0) { touch(heap + 9 * PAGE, bytes - 9 * PAGE, 0); touch(plain, bytes, 1); touch(own, bytes, 0); _exit(0); }
    int status;
    return waitpid(child, &status, 0) != child || status;
}
