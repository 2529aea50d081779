/* A C program to compile, on standard output, the same in every run: functions with loops, conditions, arrays, structures
 * and calls of earlier functions. Usage: source FUNCTIONS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t seed = 3;
static unsigned chance(unsigned below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 20) % below;
}

static int function;

static void value(int depth)
{
    switch (depth <= 0 ? chance(4) : chance(8)) {
    case 0: printf("%u", chance(1000)); break;
    case 1: printf("v%u", chance(8)); break;
    case 2: printf("table[v%u & 255]", chance(8)); break;
    case 3: printf("r->f%u", chance(6)); break;
    case 4: printf("%s%d(r->next, ", function ? "g" : "h", function ? (int)chance(function) : 0), value(0), printf(")"); break;
    default: printf("("), value(depth - 1), printf(" %c ", "+-*^&|+-"[chance(8)]), value(depth - 1), printf(")");
    }
}

static void statement(int depth)
{
    unsigned kind = depth > 3 ? 0 : chance(8), v = chance(8);
    if (kind < 4) {
        printf(kind == 0 ? "r->f%u = " : kind == 1 ? "table[%u] = " : "v%u = ", kind == 0 ? v % 6 : v);
        value(3), printf(";\n");
    } else if (kind < 6) {
        printf("if ("), value(2), printf(" > "), value(1), printf(") {\n");
        statement(depth + 1), statement(depth + 1);
        printf("} else {\n"), statement(depth + 1), printf("}\n");
    } else if (kind == 6) {
        printf("for (v%u = 0; v%u < %u; v%u++) {\n", v, v, 1 + chance(100), v);
        statement(depth + 1), statement(depth + 1);
        printf("}\n");
    } else {
        printf("switch ("), value(2), printf(") {\n");
        for (unsigned i = 0; i < 4; i++)
            printf("case %u: ", i), statement(depth + 1), printf("break;\n");
        printf("}\n");
    }
}

int main(int count, char **words)
{
    int functions = count > 1 ? atoi(words[1]) : 100;
    printf("struct r { struct r *next; long f0, f1, f2, f3, f4, f5; };\nlong table[256];\nlong h0(struct r *, long);\n");
    for (function = 0; function < functions; function++) {
        printf("long g%d(struct r *r, long v0) {\nlong v1 = 1, v2 = v0, v3 = 3, v4 = r->f0, v5 = 5, v6 = 6, v7 = 7;\n", function);
        for (unsigned i = 0, all = 4 + chance(16); i < all; i++)
            statement(0);
        printf("return v1 + v2 + v3 + v4 + v5 + v6 + v7;\n}\n");
    }
    return 0;
}
