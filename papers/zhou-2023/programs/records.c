/* What compilers were measured with for long: records, strings, branches and small calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { CIRCLE, SQUARE, TRIANGLE, KINDS };

struct record {
	struct record *next;
	enum kind kind;
	int weight;
	union {
		struct { int radius; char name[32]; } circle;
		struct { int side, tilt; char name[32]; } square;
		struct { int edges[3]; char name[32]; } triangle;
	} of;
};

static struct record *first;
static int table[64][64], totals[KINDS];
static char line[128];

static int area(const struct record *r)
{
	switch (r->kind) {
	case CIRCLE:
		return 3 * r->of.circle.radius * r->of.circle.radius;
	case SQUARE:
		return r->of.square.side * r->of.square.side;
	case TRIANGLE: {
		int a = r->of.triangle.edges[0], b = r->of.triangle.edges[1];
		return a * b / 2;
	}
	default:
		return 0;
	}
}

static const char *name_of(const struct record *r)
{
	if (r->kind == CIRCLE)
		return r->of.circle.name;
	if (r->kind == SQUARE)
		return r->of.square.name;
	return r->of.triangle.name;
}

static struct record *add(enum kind kind, int size, const char *name)
{
	struct record *r = calloc(1, sizeof *r);

	if (!r)
		exit(1);
	r->kind = kind;
	r->weight = size % 7 + 1;
	switch (kind) {
	case CIRCLE:
		r->of.circle.radius = size;
		strncpy(r->of.circle.name, name, sizeof r->of.circle.name - 1);
		break;
	case SQUARE:
		r->of.square.side = size;
		r->of.square.tilt = size / 3;
		strncpy(r->of.square.name, name, sizeof r->of.square.name - 1);
		break;
	default:
		for (int i = 0; i < 3; i++)
			r->of.triangle.edges[i] = size + i;
		strncpy(r->of.triangle.name, name, sizeof r->of.triangle.name - 1);
	}
	r->next = first;
	first = r;
	return r;
}

static struct record *sorted(struct record *list)
{
	struct record *done = NULL;

	while (list) {
		struct record *r = list, **at = &done;

		list = list->next;
		while (*at && (area(*at) < area(r) || (area(*at) == area(r) && strcmp(name_of(*at), name_of(r)) < 0)))
			at = &(*at)->next;
		r->next = *at;
		*at = r;
	}
	return done;
}

static int step(int from, int by)
{
	int sum = 0;

	for (int i = 0; i < 64; i++)
		for (int j = from & 7; j < 64; j += by) {
			table[i][j] += i * j - sum;
			if (table[i][j] > 1000)
				sum -= table[j][i] / 3;
			else
				sum += table[j][i] & 15;
		}
	return sum;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 100, sum = 0;

	for (int round = 0; round < rounds; round++) {
		snprintf(line, sizeof line, "record %d of %d", round, rounds);
		add(round % KINDS, round * 37 % 101, line);
		sum += step(round, round % 5 + 1);
	}
	first = sorted(first);
	for (struct record *r = first; r; r = r->next)
		totals[r->kind] += area(r) * r->weight;
	for (int kind = 0; kind < KINDS; kind++)
		printf("%d: %d\n", kind, totals[kind]);
	printf("%d\n", sum);
	return 0;
}
