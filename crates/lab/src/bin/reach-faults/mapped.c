/* Reads a file through a private and a shared mapping, writes to parts of both, and reads it in a child. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
enum { PAGE = 4096, HUGE = 2 << 20 };
static void touch(volatile char *area, long bytes, int write) {
    for (long at = 0; at < bytes; at += PAGE) { if (write) area[at] += 1; else (void)area[at]; }
}
int main(int argc, char **argv) {
    struct stat about;
    int file = argc > 1 ? open(argv[1], O_RDWR) : -1;
    if (file < 0 || fstat(file, &about)) return 1;
    long bytes = about.st_size & -PAGE;
    char *own = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    char *shared = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (own == MAP_FAILED || shared == MAP_FAILED) return 1;
    touch(own, bytes, 0);
    touch(shared, bytes / 2, 0);
    touch(own + HUGE, HUGE / 4, 1);
    touch(own, bytes, 0);
    touch(shared + HUGE, PAGE, 1);
    touch(shared, bytes / 2, 0);
    pid_t child = fork();
    if (child == 0) { touch(own, bytes, 0); touch(shared, bytes / 2, 0); _exit(0); }
    int status;
    return waitpid(child, &status, 0) != child || status;
}
