/* Runs its arguments without address randomisation, and prints the page faults of that child and the huge pages of all
   sizes that the whole system allocated meanwhile, of private memory, of shared memory, and for hugetlbfs. One child per
   process, so that no other faults are counted. */
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static long huge_pages(void) {
    glob_t sizes;
    long sum = 0;
    if (glob("/sys/kernel/mm/transparent_hugepage/hugepages-*/stats/anon_fault_alloc", 0, 0, &sizes)) return 0;
    glob("/sys/kernel/mm/transparent_hugepage/hugepages-*/stats/shmem_alloc", GLOB_APPEND, 0, &sizes);
    for (size_t i = 0; i < sizes.gl_pathc; i++) {
        long value = 0;
        FILE *file = fopen(sizes.gl_pathv[i], "r");
        if (file && fscanf(file, "%ld", &value) == 1) sum += value;
        if (file) fclose(file);
    }
    globfree(&sizes);
    long value;
    char name[64];
    FILE *file = fopen("/proc/vmstat", "r");
    while (file && fscanf(file, "%63s %ld", name, &value) == 2)
        if (!strcmp(name, "htlb_buddy_alloc_success")) sum += value;
    if (file) fclose(file);
    return sum;
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
