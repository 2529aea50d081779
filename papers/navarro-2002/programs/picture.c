/* A picture to rotate, 24 bits a pixel, as a PPM file on standard output. */
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words)
{
    int width = count > 2 ? atoi(words[1]) : 800, height = count > 2 ? atoi(words[2]) : 600;
    printf("P6\n%d %d\n255\n", width, height);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            putchar(x * 255 / width);
            putchar(y * 255 / height);
            putchar((x * x / 7 + y * y / 5) / 64 & 255);
        }
    return 0;
}
