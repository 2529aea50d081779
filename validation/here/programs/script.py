"""Dictionaries, lists and strings, as scripts have them."""

counts = {}
state = 12345
for i in range(150_000):
    state = (state * 1103515245 + 12345) % 2**31
    key = f"k{state % 50_000}"
    counts.setdefault(key, []).append(i)
print(len(counts), max(len(places) for places in counts.values()))
