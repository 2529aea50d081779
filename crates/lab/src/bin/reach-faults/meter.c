/* Runs its arguments without address randomisation, and prints the page faults of that child and the huge pages that the
   whole system allocated in page faults meanwhile. One child per process, so that no other faults are counted. */
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static long huge_pages(void) {
    char name[64];
    long value;
    FILE *file = fopen("/proc/vmstat", "r");
    while (file && fscanf(file, "%63s %ld", name, &value) == 2)
        if (!strcmp(name, "thp_fault_alloc")) { fclose(file); return value; }
    return 0;
}

int main(int argc, char **argv) {
    int status;
    struct rusage usage;
    if (argc < 2 || personality(ADDR_NO_RANDOMIZE) < 0) return 1;
    long before = huge_pages();
    pid_t child = vfork();
    if (child == 0) { execvp(argv[1], argv + 1); _exit(127); }
    if (wait4(child, &status, 0, &usage) != child || status) return 1;
    dprintf(2, "%ld %ld\n", usage.ru_minflt + usage.ru_majflt, huge_pages() - before);
    return 0;
}
