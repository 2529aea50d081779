/* C4 of Navarro et al. 2002, section 6.2: alpha-beta search of a connect-4 position 12 plies into the game, with a
 * transposition table of 1050011 entries of 4 + 1 bytes, which gives the 5.2 MB of the paper's Table 1. The search ends
 * when the position is solved, or after a given number of positions. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 7, HEIGHT = 6, COLUMN = HEIGHT + 1, TABLE = 1050011 };
enum { UNKNOWN, LOSS, DRAWLOSS, DRAW, DRAWWIN, WIN };

static uint32_t *locks;
static int8_t *scores;
static uint64_t stones[2];
static int height[WIDTH], plies;
static long left;
static int history[2][WIDTH * COLUMN];

static int wins(uint64_t own)
{
    for (int step = 1; step <= COLUMN + 1; step += step == 1 ? COLUMN - 2 : 1) {
        uint64_t pairs = own & own >> step;
        if (pairs & pairs >> 2 * step)
            return 1;
    }
    return 0;
}

static uint64_t position(void)
{
    return (stones[plies & 1] + stones[0] + stones[1]) | (uint64_t)(plies & 1) << 62;
}

static void put(int column)
{
    stones[plies++ & 1] |= 1ULL << (column * COLUMN + height[column]++);
}

static void take(int column)
{
    stones[--plies & 1] ^= 1ULL << (column * COLUMN + --height[column]);
}

static int search(int alpha, int beta)
{
    if (left-- <= 0)
        return DRAW;
    int side = plies & 1, moves[WIDTH], count = 0;
    if (plies == WIDTH * HEIGHT)
        return DRAW;
    for (int column = 0; column < WIDTH; column++) {
        if (height[column] == HEIGHT)
            continue;
        uint64_t stone = 1ULL << (column * COLUMN + height[column]);
        if (wins(stones[side] | stone))
            return WIN;
        if (wins(stones[!side] | stone)) {
            moves[0] = column;
            count = 1;
            break;
        }
        moves[count++] = column;
    }
    uint64_t key = position();
    uint32_t slot = key % TABLE, lock = key >> 17;
    if (locks[slot] == lock && scores[slot] != UNKNOWN) {
        int known = scores[slot];
        if (known == DRAWLOSS)
            beta = beta < DRAW ? beta : DRAW;
        else if (known == DRAWWIN)
            alpha = alpha > DRAW ? alpha : DRAW;
        else
            return known;
        if (alpha >= beta)
            return known;
    }
    long before = left;
    int best = LOSS, chosen = 0;
    for (int i = 0; i < count; i++) {
        int pick = i;
        for (int k = i + 1; k < count; k++) {
            int *worth = history[side];
            if (worth[moves[k] * COLUMN + height[moves[k]]] > worth[moves[pick] * COLUMN + height[moves[pick]]])
                pick = k;
        }
        int move = moves[pick];
        moves[pick] = moves[i];
        moves[i] = move;
        put(move);
        int value = WIN + LOSS - search(WIN + LOSS - beta, WIN + LOSS - alpha);
        take(move);
        if (value > best) {
            best = value;
            chosen = i;
            alpha = alpha > value ? alpha : value;
            if (alpha >= beta) {
                if (best == DRAW && i < count - 1)
                    best = DRAWWIN;
                break;
            }
        }
    }
    for (int i = 0; i < chosen; i++)
        history[side][moves[i] * COLUMN + height[moves[i]]]--;
    history[side][moves[chosen] * COLUMN + height[moves[chosen]]] += chosen;
    if (before - left > 0 && left > 0) {
        locks[slot] = lock;
        scores[slot] = best;
    }
    return best;
}

int main(int count, char **words)
{
    locks = malloc(TABLE * sizeof *locks);
    scores = malloc(TABLE);
    if (count < 3 || !locks || !scores)
        return 1;
    for (int i = 0; i < TABLE; i++)
        locks[i] = scores[i] = 0;
    for (int c = 0; c < WIDTH; c++)
        for (int h = 0; h < HEIGHT; h++) {
            int middle = c < 3 ? c : 6 - c, height = h < 3 ? h : 5 - h;
            history[0][c * COLUMN + h] = history[1][c * COLUMN + h] = 4 + middle + height * (middle + 1);
        }
    for (char *move = words[1]; *move; move++)
        put(*move - '1');
    left = atol(words[2]);
    printf("%d\n", search(LOSS, WIN));
    return 0;
}
