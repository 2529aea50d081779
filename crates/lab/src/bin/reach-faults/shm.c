/* Writes a file in /dev/shm, a memfd and shared anonymous memory, each through a shared mapping, from two processes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static void touch(volatile char *area, long bytes, int write) {
    for (long at = 0; at < bytes; at += 4096) { if (write) area[at] += 1; else (void)area[at]; }
}
int main(void) {
    long bytes = 3 << 20;
    char name[64];
    snprintf(name, sizeof name, "/reach-faults-%d", getpid());
    int file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600), memory = memfd_create("faults", 0);
    if (file < 0 || memory < 0 || shm_unlink(name) || ftruncate(file, bytes) || ftruncate(memory, bytes)) return 1;
    char *areas[3] = {
        mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0),
        mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0),
        mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
    };
    touch(areas[0], bytes / 2, 0);
    for (int i = 0; i < 3; i++) touch(areas[i], bytes, 1);
    pid_t child = fork();
    if (child == 0) { touch(areas[1], bytes, 0); touch(areas[2], bytes, 1); _exit(0); }
    int status;
    return waitpid(child, &status, 0) != child || status;
}
