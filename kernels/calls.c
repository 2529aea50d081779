/* The only program of the guest in which kernels/record.sh records a kernel: it provokes each kind of entry many times.
 *
 * Before each, a marker says which: an instruction without effect that carries a number (crates/kernel-recorder/src/marker.rs).
 * Numbers are positions in KINDS, from 1 on; the kinds of system calls have the names of the calls. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KINDS(X) \
    X(getppid) X(read) X(write) X(pread64) X(pwrite64) X(readv) X(writev) X(openat) X(close) X(fstat) X(newfstatat) \
    X(lseek) X(faccessat) X(mmap) X(munmap) X(mprotect) X(brk) X(madvise) X(rt_sigaction) X(rt_sigprocmask) X(ioctl) \
    X(fcntl) X(dup) X(pipe2) X(sendto) X(recvfrom) X(sendmsg) X(recvmsg) X(poll) X(epoll_wait) X(futex) \
    X(clock_gettime) X(getrandom) X(getdents64) X(unlinkat) X(sched_yield) X(getrusage) X(uname) X(fsync) X(ftruncate) \
    X(clone) X(fork) X(execve) X(exit_group) X(wait4) X(switch) X(timer) X(fault_anonymous) X(fault_file) X(fault_copy)

enum kind {
    none,
#define X(name) K_##name,
    KINDS(X)
#undef X
};

#define QUIET 0xffff
#define TIMES 60
#define PAGE 4096

/* Announces what comes next. The jumps end the emulator's blocks, so that this is a block of its own. */
#define MARK(number) \
    __asm__ volatile("jmp 1f\n1: .byte 0x0f, 0x1f, 0x84, 0x00\n.long %c0\njmp 2f\n2:" : : "i"(number) : "memory")

/* A marker, and the system call directly after it. */
#define CALL(kind, number, a, b, c, d, e, f)                                                                          \
    ({                                                                                                                \
        register long r10 __asm__("r10") = (long)(d), r8 __asm__("r8") = (long)(e), r9 __asm__("r9") = (long)(f);     \
        long result;                                                                                                  \
        __asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00\n.long %c1\nsyscall"                                          \
                         : "=a"(result)                                                                               \
                         : "i"(kind), "a"((long)(number)), "D"((long)(a)), "S"((long)(b)), "d"((long)(c)), "r"(r10),  \
                           "r"(r8), "r"(r9)                                                                           \
                         : "rcx", "r11", "memory");                                                                   \
        result;                                                                                                       \
    })
#define CALL3(name, a, b, c) CALL(K_##name, SYS_##name, a, b, c, 0, 0, 0)

static char buffer[PAGE], path[] = "/tmp/file";

static void need(long result, const char *what) {
    if (result < 0) {
        printf("calls: %s failed\n", what);
        fflush(stdout);
        reboot(RB_POWER_OFF);
    }
}

static int file_of(size_t bytes) {
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    need(fd, "open");
    for (size_t at = 0; at < bytes; at += PAGE)
        need(write(fd, buffer, PAGE), "write");
    return fd;
}

static void files(void) {
    int fd = file_of(64 * PAGE);
    struct iovec vec = {buffer, PAGE};
    struct stat about;
    char entries[2048];
    for (int i = 0; i < TIMES; i++) {
        lseek(fd, i % 64 * PAGE, SEEK_SET);
        need(CALL3(read, fd, buffer, PAGE), "read");
        lseek(fd, i % 64 * PAGE, SEEK_SET);
        need(CALL3(write, fd, buffer, PAGE), "write");
        need(CALL(K_pread64, SYS_pread64, fd, buffer, PAGE, i % 64 * PAGE, 0, 0), "pread64");
        need(CALL(K_pwrite64, SYS_pwrite64, fd, buffer, PAGE, i % 64 * PAGE, 0, 0), "pwrite64");
        need(CALL3(lseek, fd, 0, SEEK_SET), "lseek");
        need(CALL3(readv, fd, &vec, 1), "readv");
        need(CALL3(writev, fd, &vec, 1), "writev");
        need(CALL3(fstat, fd, &about, 0), "fstat");
        need(CALL(K_newfstatat, SYS_newfstatat, AT_FDCWD, path, &about, 0, 0, 0), "newfstatat");
        need(CALL3(faccessat, AT_FDCWD, path, R_OK), "faccessat");
        need(CALL3(fcntl, fd, F_GETFL, 0), "fcntl");
        CALL3(ioctl, fd, TIOCGWINSZ, buffer);
        int other = CALL3(dup, fd, 0, 0);
        need(other, "dup");
        close(other);
        other = CALL(K_openat, SYS_openat, AT_FDCWD, path, O_RDONLY, 0, 0, 0);
        need(other, "openat");
        need(CALL3(close, other, 0, 0), "close");
        need(CALL3(fsync, fd, 0, 0), "fsync");
        need(CALL3(ftruncate, fd, 64 * PAGE, 0), "ftruncate");
        int folder = open("/tmp", O_RDONLY | O_DIRECTORY);
        need(CALL3(getdents64, folder, entries, sizeof entries), "getdents64");
        close(folder);
        close(open("/tmp/other", O_CREAT | O_WRONLY, 0600));
        need(CALL3(unlinkat, AT_FDCWD, "/tmp/other", 0), "unlinkat");
        int ends[2];
        need(CALL3(pipe2, ends, 0, 0), "pipe2");
        close(ends[0]);
        close(ends[1]);
    }
    close(fd);
}

static void plain(void) {
    struct sigaction none_set = {0};
    struct rusage usage;
    struct utsname name;
    struct timespec now;
    sigset_t set;
    uint32_t word = 0;
    sigemptyset(&set);
    for (int i = 0; i < TIMES; i++) {
        CALL3(getppid, 0, 0, 0);
        CALL(K_rt_sigaction, SYS_rt_sigaction, SIGUSR1, 0, &none_set, 8, 0, 0);
        CALL(K_rt_sigprocmask, SYS_rt_sigprocmask, SIG_BLOCK, &set, 0, 8, 0, 0);
        CALL3(futex, &word, FUTEX_WAKE_PRIVATE, 1);
        CALL3(clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &now, 0);
        CALL3(getrandom, buffer, 32, 0);
        CALL3(sched_yield, 0, 0, 0);
        CALL3(getrusage, RUSAGE_SELF, &usage, 0);
        CALL3(uname, &name, 0, 0);
    }
}

static void mappings(void) {
    int fd = file_of(64 * PAGE);
    char *end = (char *)syscall(SYS_brk, 0);
    for (int i = 0; i < TIMES; i++) {
        char *at = (char *)CALL(K_mmap, SYS_mmap, 0, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        /* The first fault of a region also makes its page tables. */
        *(volatile char *)at = 1;
        MARK(K_fault_anonymous);
        *(volatile char *)(at + 5 * PAGE) = 1;
        MARK(QUIET);
        need(CALL3(mprotect, at + 16 * PAGE, 16 * PAGE, PROT_READ), "mprotect");
        need(CALL3(madvise, at, 8 * PAGE, MADV_DONTNEED), "madvise");
        need(CALL3(munmap, at, 64 * PAGE, 0), "munmap");
        at = mmap(0, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        *(volatile char *)at = 1;
        MARK(K_fault_file);
        (void)*(volatile char *)(at + 40 * PAGE);
        MARK(QUIET);
        MARK(K_fault_copy);
        *(volatile char *)(at + 40 * PAGE) = 1;
        MARK(QUIET);
        munmap(at, 64 * PAGE);
        CALL3(brk, end + 16 * PAGE, 0, 0);
        syscall(SYS_brk, end);
    }
    close(fd);
}

static void sockets(void) {
    int ends[2], listener = socket(AF_INET, SOCK_STREAM, 0), control = listener;
    struct ifreq interface = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    need(ioctl(control, SIOCSIFFLAGS, &interface), "ioctl lo");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(4000), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    need(bind(listener, (struct sockaddr *)&address, sizeof address), "bind");
    need(listen(listener, 1), "listen");
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    need(connect(ends[0], (struct sockaddr *)&address, sizeof address), "connect");
    ends[1] = accept(listener, 0, 0);
    int local[2], epoll = epoll_create1(0);
    need(socketpair(AF_UNIX, SOCK_STREAM, 0, local), "socketpair");
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = ends[1]}};
    need(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[1], &event), "epoll_ctl");
    struct pollfd polled[2] = {{ends[1], POLLIN, 0}, {local[1], POLLIN, 0}};
    struct iovec vec = {buffer, 256};
    struct msghdr message = {.msg_iov = &vec, .msg_iovlen = 1};
    for (int i = 0; i < TIMES; i++) {
        need(CALL(K_sendto, SYS_sendto, ends[0], buffer, 256, 0, 0, 0), "sendto");
        need(CALL(K_epoll_wait, SYS_epoll_wait, epoll, &event, 1, 0, 0, 0), "epoll_wait");
        need(CALL3(poll, polled, 2, 0), "poll");
        need(CALL(K_recvfrom, SYS_recvfrom, ends[1], buffer, 256, 0, 0, 0), "recvfrom");
        need(CALL3(sendmsg, local[0], &message, 0), "sendmsg");
        need(CALL3(recvmsg, local[1], &message, 0), "recvmsg");
    }
}

static char thread_stack[16 * PAGE];

/* Starts a thread that ends at once. Inline, because a thread must not return from a function of its creator. */
static long start_thread(void) {
    long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, result;
    memset(thread_stack, 0, sizeof thread_stack);
    __asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00\n.long %c1\nsyscall\n"
                     "test %%rax, %%rax\njnz 1f\nxor %%edi, %%edi\nmov $60, %%eax\nsyscall\n1:"
                     : "=a"(result)
                     : "i"(K_clone), "a"((long)SYS_clone), "D"(flags), "S"(thread_stack + sizeof thread_stack), "d"(0)
                     : "rcx", "r8", "r10", "r11", "memory");
    return result;
}

static void processes(char *self) {
    char *arguments[] = {self, "exit", 0}, *environment[] = {0};
    for (int i = 0; i < TIMES / 2; i++) {
        int ends[2];
        char byte;
        need(pipe(ends), "pipe");
        long child = CALL3(fork, 0, 0, 0);
        need(child, "fork");
        if (child == 0) {
            close(ends[0]);
            CALL3(execve, self, arguments, environment);
        }
        close(ends[1]);
        /* The pipe closes when the child ends. */
        need(read(ends[0], &byte, 1), "read");
        close(ends[0]);
        sched_yield();
        need(CALL(K_wait4, SYS_wait4, child, 0, 0, 0, 0, 0), "wait4");
        need(start_thread(), "clone");
        usleep(2000);
    }
}

/* Two processes take turns: each blocks in a read that the other ends. A woken process of this class waits for its turn. */
static void switches(void) {
    int there[2], back[2];
    char byte = 0;
    struct sched_param parameters = {0};
    need(sched_setscheduler(0, SCHED_BATCH, &parameters), "sched_setscheduler");
    need(pipe(there), "pipe");
    need(pipe(back), "pipe");
    int child = fork();
    need(child, "fork");
    for (int i = 0; i < TIMES; i++) {
        if (child == 0) {
            need(CALL(K_switch, SYS_read, there[0], &byte, 1, 0, 0, 0), "switch");
            need(write(back[1], &byte, 1), "write");
        } else {
            need(write(there[1], &byte, 1), "write");
            need(read(back[0], &byte, 1), "read");
        }
    }
    if (child == 0)
        _exit(0);
    waitpid(child, 0, 0);
}

static void timer(void) {
    for (int i = 0; i < TIMES; i++) {
        MARK(K_timer);
        for (volatile long spin = 0; spin < 3000000; spin++)
            ;
        MARK(QUIET);
    }
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "exit") == 0) {
        CALL3(exit_group, 0, 0, 0);
    }
    mount("tmpfs", "/tmp", "tmpfs", 0, 0);
    mount("proc", "/proc", "proc", 0, 0);
    for (int round = 0; round < 2; round++) {
        plain();
        files();
        mappings();
    }
    sockets();
    processes("/init");
    switches();
    timer();
    puts("calls: done");
    fflush(stdout);
    reboot(RB_POWER_OFF);
}
