/* Assembly sources of a large program for the linker, file by file: functions that call and name others of any file.
 * Usage: objects FILES FUNCTIONS, which writes 0.s, 1.s and so on. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t seed = 7;
static unsigned chance(unsigned below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 20) % below;
}

int main(int count, char **words)
{
    if (count < 3)
        return 1;
    int files = atoi(words[1]), functions = atoi(words[2]), all = files * functions;
    for (int file = 0; file < files; file++) {
        char name[32];
        snprintf(name, sizeof name, "%d.s", file);
        FILE *out = fopen(name, "w");
        if (!out)
            return 1;
        for (int f = file * functions; f < (file + 1) * functions; f++) {
            int calls = 1 + chance(20);
            fprintf(out, "\t.text\n\t.globl kernel_subsystem_function_%d\nkernel_subsystem_function_%d:\n", f, f);
            for (int i = 0; i < calls; i++)
                fprintf(out, "\tcall kernel_subsystem_function_%d\n\t.skip %d, 0x90\n", chance(all), 1 + chance(60));
            fprintf(out, "\tret\n\t.data\n\t.globl kernel_table_%d\nkernel_table_%d:\n", f, f);
            fprintf(out, "\t.quad kernel_subsystem_function_%d, kernel_table_%d\n", chance(all), chance(all));
            fprintf(out, "\t.section .rodata.str1.1,\"aMS\",@progbits,1\n\t.string \"message %d of file %d\"\n", f, file);
        }
        if (file == 0)
            fprintf(out, "\t.text\n\t.globl _start\n_start:\n\tjmp kernel_subsystem_function_0\n");
        fclose(out);
    }
    return 0;
}
