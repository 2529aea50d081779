#!/usr/bin/env python3
"""Makes a profile for mansi-2022-cbmm of what `reach where` says of an earlier run.

    reach where --by extent --format csv -m zen4 -- PROGRAM > base.csv
    scripts/cbmm-profile.py base.csv > profile.csv
    reach compare -m zen4 -s base -s linux-thp -s mansi-2022-cbmm:profile=profile.csv -- PROGRAM

A huge page saves the cycles of the walks for its 2 MB. With a second file, of the same program under huge pages
(`reach where -s linux-thp`), those that are left are subtracted. --column cycles takes the cycles that the core waits for
translation and for nothing else, in place of walk_cycles. Addresses have to be those of the later run: no --aslr.
"""

import argparse
import csv
import re

HUGE = 2 << 20
# Other memory of files, and stacks, get no huge pages by a profile.
EXTENT = re.compile(r"0x([0-9a-f]+) in (\[heap\]|\[anonymous\b|.*\(bss\))")
SECTIONS = {"[heap]": "heap", "[anonymous": "mmap"}


def costs(path, column):
    """Returns the cost of each extent, by its section and address."""
    found = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            extent = EXTENT.match(row["owner"])
            if row["by"] == "extent" and extent:
                if not row[column]:
                    raise SystemExit(f"{path}: {column} are missing; run reach where without --timing counts")
                key = (SECTIONS.get(extent[2], "data"), int(extent[1], 16))
                found[key] = found.get(key, 0) + int(float(row[column]))
    return found


def bytes_of(text):
    """Reads a number of bytes such as 32M or 1G."""
    powers = {"K": 10, "M": 20, "G": 30}
    power = powers.get(text[-1:].upper(), 0)
    return int(text[:-1] if power else text) << power


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", help="rows of reach where under base pages, as CSV")
    parser.add_argument("huge", nargs="?", help="the same under huge pages")
    parser.add_argument("--column", choices=["walk_cycles", "cycles"], default="walk_cycles")
    parser.add_argument("--slice", default="2M", help="bytes of a line's addresses, a multiple of 2M [default: 2M]")
    parser.add_argument("--least", type=int, default=1, help="leave out extents that save fewer cycles")
    arguments = parser.parse_args()
    left = costs(arguments.huge, arguments.column) if arguments.huge else {}
    extents = bytes_of(arguments.slice) // HUGE
    if extents == 0 or bytes_of(arguments.slice) % HUGE:
        parser.error(f"--slice {arguments.slice}: expected a multiple of 2M")
    slices = {}
    for (section, start), cost in costs(arguments.base, arguments.column).items():
        key = (section, start // (extents * HUGE))
        slices[key] = slices.get(key, 0) + cost - left.get((section, start), 0)
    for (section, number), saved in sorted(slices.items()):
        # A line has the benefit of each huge page, of which a slice holds several.
        benefit, start = saved // extents, number * extents * HUGE
        if benefit >= arguments.least:
            print(f"huge,{section},{benefit},addr,>,{start:#x},addr,<,{start + extents * HUGE:#x}")


if __name__ == "__main__":
    main()
