// A server in small: requests of TYPES types, each a path of 64 pages of code. Each page executes about eight hundred instructions and loads
// random words of the request's data, and one time in eight a detour leads to a neighbour of the next page on the path.
// Usage: requests TYPES REQUESTS. PAGES is the number of pages of code.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

// A page: eight blocks of 24 additions, 496 bytes apart, executed four times. It takes and returns a number.
__asm__(".pushsection .text.pages, \"ax\", @progbits\n"
        ".balign 4096\n"
        "pages:\n"
        ".rept " TEXT(PAGES) "\n"
        ".balign 4096\n"
        "mov %rdi, %rax\n"
        "mov $4, %ecx\n"
        "1:\n"
        ".rept 8\n"
        ".rept 8\n"
        "lea 3(%rax,%rdi), %rdx\n"
        "add %rcx, %rdx\n"
        "xor %rdx, %rax\n"
        ".endr\n"
        "jmp 2f\n"
        ".skip 384, 0xcc\n"
        "2:\n"
        ".endr\n"
        "dec %ecx\n"
        "jnz 1b\n"
        "ret\n"
        ".endr\n"
        ".popsection\n");

extern char pages[];

enum { STEPS = 64, WORDS = 8 << 20 };

static uint64_t state = 88172645463325252;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    unsigned types = (unsigned)atoi(argv[1]);
    uint16_t(*paths)[STEPS] = malloc(types * sizeof *paths);
    uint64_t *data = malloc(WORDS * sizeof *data), sum = 0;
    if (!types || !paths || !data) return 1;
    for (size_t at = 0; at < WORDS; at += 512) data[at] = at;
    for (unsigned type = 0; type < types; type++)
        for (int step = 0; step < STEPS; step++) paths[type][step] = (uint16_t)(next() % PAGES);
    for (long left = atol(argv[2]); left > 0; left--) {
        // The least of three numbers: some types are popular.
        unsigned type = types;
        for (int i = 0; i < 3; i++) {
            unsigned other = (unsigned)(next() % types);
            type = other < type ? other : type;
        }
        for (int step = 0; step < STEPS; step++) {
            uint64_t random = next();
            unsigned page = paths[type][step];
            if (random % 8 == 0) page = (page + 1) % PAGES;
            uint64_t (*handler)(uint64_t) = (uint64_t(*)(uint64_t))(pages + 4096UL * page);
            sum += handler(data[random >> 41]);
        }
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
