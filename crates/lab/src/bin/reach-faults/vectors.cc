/* Grows vectors and a map of strings. */
#include <cstdio>
#include <map>
#include <string>
#include <vector>
int main() {
    std::vector<double> numbers;
    std::map<std::string, int> words;
    std::vector<std::string> lines;
    unsigned x = 1;
    for (int i = 0; i < 1000000; i++) numbers.push_back(i * 0.5);
    for (int i = 0; i < 60000; i++) {
        x = x * 1664525 + 1013904223;
        words["word number " + std::to_string(x % 20000)]++;
        lines.push_back(std::string(40, 'a' + i % 26));
    }
    std::printf("%zu %zu %zu\n", numbers.size(), words.size(), lines.size());
}
