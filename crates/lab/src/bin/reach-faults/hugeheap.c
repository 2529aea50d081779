/* Preloaded into a program, puts its large blocks from calloc on a file of hugetlbfs. */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>
enum { LARGE = 1 << 20, HUGE = 2 << 20 };
extern void *__libc_calloc(size_t count, size_t size);
void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes < LARGE) return __libc_calloc(count, size);
    bytes = (bytes + HUGE - 1) & ~(size_t)(HUGE - 1);
    int file = memfd_create("heap", MFD_HUGETLB);
    if (file < 0 || ftruncate(file, bytes)) _exit(3);
    void *area = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (area == MAP_FAILED) _exit(4);
    close(file);
    return area;
}
