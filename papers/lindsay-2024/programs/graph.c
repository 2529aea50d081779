/* Makes a graph and saves it, for the programs to start with.
 *     graph FILE urand|kron SCALE */
#include "graph.h"

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: graph FILE urand|kron SCALE\n");
        return 2;
    }
    begin(argc - 1, argv + 1);
    FILE *file = fopen(argv[1], "wb");
    uint64_t count = vertices;
    if (!file || fwrite(&count, sizeof count, 1, file) != 1 || fwrite(row, sizeof *row, count + 1, file) != count + 1
        || fwrite(near, sizeof *near, row[count], file) != row[count] || fclose(file)) {
        perror(argv[1]);
        return 2;
    }
    return finish(0);
}
