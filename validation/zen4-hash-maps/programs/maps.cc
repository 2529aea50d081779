// Work on boost::unordered_flat_map, as the measured set describes it. The last word of the program's name says where blocks
// of at least 2 MB that the map allocates lie: in the heap ("...-4k"), or in mappings of their own, aligned to 2 MB, with
// MADV_HUGEPAGE ("...-2m").
//
//   maps build N               inserts N random keys into an empty map; the map is destroyed
//   maps find N SIZES LOOKUPS  a map that grows to about N / 2 entries, with LOOKUPS look-ups, half of them of keys that it has, at
//                              each of SIZES sizes
//
// Values have 8 bytes, or 64 if the program's name begins with "big".

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <new>
#include <sys/mman.h>
#include <vector>

static const size_t HUGE_PAGE = 2 << 20;
static const uint64_t GOLDEN = 0x9E3779B97F4A7C15;
static bool huge;

// The map's blocks of at least 2 MB on pages of 2 MB, if the program's name asks for it.
template <typename T> struct Blocks {
    typedef T value_type;
    Blocks() = default;
    template <typename U> Blocks(const Blocks<U> &) {}

    static size_t rounded(size_t n) { return (n * sizeof(T) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE; }

    T *allocate(size_t n) {
        if (!huge || n * sizeof(T) < HUGE_PAGE) {
            void *block = malloc(n * sizeof(T));
            if (!block) throw std::bad_alloc();
            return static_cast<T *>(block);
        }
        // More than needed, so that an aligned part can be kept.
        size_t bytes = rounded(n), taken = bytes + HUGE_PAGE;
        void *all = mmap(nullptr, taken, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (all == MAP_FAILED) throw std::bad_alloc();
        uintptr_t from = reinterpret_cast<uintptr_t>(all), start = (from + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
        if (start > from) munmap(all, start - from);
        if (from + taken > start + bytes) munmap(reinterpret_cast<void *>(start + bytes), from + taken - start - bytes);
        madvise(reinterpret_cast<void *>(start), bytes, MADV_HUGEPAGE);
        return reinterpret_cast<T *>(start);
    }

    void deallocate(T *block, size_t n) {
        if (!huge || n * sizeof(T) < HUGE_PAGE)
            free(block);
        else
            munmap(block, rounded(n));
    }

    template <typename U> bool operator==(const Blocks<U> &) const { return true; }
    template <typename U> bool operator!=(const Blocks<U> &) const { return false; }
};

// One multiplication to 128 bits whose halves are joined. The map need not mix its result.
struct Hash {
    typedef void is_avalanching;
    size_t operator()(uint64_t key) const {
        unsigned __int128 product = static_cast<unsigned __int128>(key) * GOLDEN;
        return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    }
};

// RomuDuoJr (Overton 2020).
struct Random {
    uint64_t x, y;
    explicit Random(uint64_t seed) : x(seed ^ GOLDEN), y(seed * GOLDEN + 1) {
        for (int i = 0; i < 10; i++) next();
    }
    uint64_t next() {
        uint64_t before = x;
        x = UINT64_C(15241094284759029579) * y;
        y -= before;
        y = y << 27 | y >> 37;
        return before;
    }
};

static uint64_t key(uint64_t value) {
    value *= GOLDEN;
    value ^= value >> 29;
    return value * UINT64_C(0xBF58476D1CE4E5B9);
}

static uint64_t scaled(uint64_t r, uint64_t m) { return (r >> 32) * m >> 32; }

static const uint64_t MISS = UINT64_C(1) << 63;

struct Big {
    uint64_t words[8];
    Big(uint64_t first = 0) : words{first} {}
    operator uint64_t() const { return words[0]; }
};

template <typename V> struct Work {
    typedef boost::unordered_flat_map<uint64_t, V, Hash, std::equal_to<uint64_t>, Blocks<std::pair<const uint64_t, V>>> Map;

    static uint64_t build(uint64_t n) {
        Random random(1);
        Map map;
        for (uint64_t i = 0; i < n; i++) map[key(random.next())] = i;
        return map.size();
    }

    static uint64_t find(uint64_t n, uint64_t sizes, uint64_t lookups) {
        Random fill(3), random(4);
        Map map;
        std::vector<uint64_t> inserted;
        uint64_t sum = 0, next_size = n / sizes / 2;
        inserted.reserve(n);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t candidate = fill.next() & ~MISS;
            if (inserted.empty() || fill.next() >> 63) {
                map[key(candidate)] = i;
                inserted.push_back(candidate);
            }
            if (i != next_size) continue;
            next_size += n / sizes;
            for (uint64_t j = 0; j < lookups; j++) {
                uint64_t r = random.next();
                auto found = map.find(r & 1 ? key(inserted[scaled(r, inserted.size())]) : key(r | MISS));
                if (found != map.end()) sum += found->second;
            }
        }
        return sum;
    }

    static int run(int count, char **words) {
        uint64_t numbers[3] = {};
        for (int i = 2; i < count && i < 5; i++) numbers[i - 2] = strtoull(words[i], nullptr, 10);
        const char *name = count > 2 ? words[1] : "";
        uint64_t result;
        if (!strcmp(name, "build"))
            result = build(numbers[0]);
        else if (!strcmp(name, "find") && numbers[1])
            result = find(numbers[0], numbers[1], numbers[2]);
        else
            return fputs("expected build N, or find N SIZES LOOKUPS\n", stderr), 2;
        printf("%llu\n", static_cast<unsigned long long>(result));
        return 0;
    }
};

int main(int count, char **words) {
    // Blocks of up to 64 MB stay in the heap, where they are faulted once. Older C libraries accept 32 MB at most.
    if (!mallopt(M_MMAP_THRESHOLD, 64 << 20)) mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
    const char *slash = strrchr(words[0], '/'), *name = slash ? slash + 1 : words[0];
    size_t length = strlen(name);
    huge = length > 2 && !strcmp(name + length - 2, "2m");
    return strncmp(name, "big", 3) ? Work<uint64_t>::run(count, words) : Work<Big>::run(count, words);
}
