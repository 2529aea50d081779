#!/usr/bin/env python3
"""Print the free memory of this computer as blocks of 1, 2, 4 … pages, in a line as /proc/buddyinfo has them.

/proc/buddyinfo ends at blocks of 4 MB. Here, neighbouring free blocks are one, of up to 2 GB. Needs root (/proc/kpageflags)."""
import array

FREE = 1 << 10  # KPF_BUDDY


def runs(flags):
    """Yields first page and length of each run of free pages."""
    first = None
    for page, flag in enumerate(flags):
        if flag & FREE and first is None:
            first = page
        elif not flag & FREE and first is not None:
            yield first, page - first
            first = None
    if first is not None:
        yield first, len(flags) - first


def read():
    flags = array.array("Q")
    with open("/proc/kpageflags", "rb", buffering=0) as file:
        while part := file.read(1 << 20):
            flags.frombytes(part)
    return flags


blocks = [0] * 20
for at, left in runs(read()):
    while left:
        aligned = (at & -at).bit_length() - 1 if at else 63
        order = min(aligned, left.bit_length() - 1, len(blocks) - 1)
        blocks[order] += 1
        at, left = at + (1 << order), left - (1 << order)
print("Node 0, zone   all", *(f"{count:6}" for count in blocks))
