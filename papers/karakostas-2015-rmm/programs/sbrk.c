/* The heap grows by 32 MB at a time, as under the paper's TCMalloc (section 7), whatever the allocator asks for; by
 * mappings of that size where the break cannot move on.
 *     cc -shared -fPIC -o sbrk.so sbrk.c; LD_PRELOAD=./sbrk.so:libtcmalloc_minimal.so.4 … */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STEP (32l << 20)

void *sbrk(intptr_t bytes)
{
    static uintptr_t top, end, broken;
    if (!top)
        top = end = syscall(SYS_brk, 0);
    if (bytes > 0 && (uintptr_t)bytes > end - top) {
        uintptr_t wanted = top + bytes > end + STEP ? top + bytes : end + STEP;
        broken = broken || (uintptr_t)syscall(SYS_brk, wanted) < wanted;
        if (broken) {
            uintptr_t length = bytes > STEP ? (bytes + 4095) & ~4095l : STEP;
            void *at = mmap(0, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (at == MAP_FAILED) {
                errno = ENOMEM;
                return (void *)-1;
            }
            top = (uintptr_t)at;
            wanted = top + length;
        }
        end = wanted;
    }
    top += bytes;
    return (void *)(top - bytes);
}
