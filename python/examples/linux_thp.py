"""Linux's transparent huge pages at first touch, in Python, beside those in Rust.

    python linux_thp.py [gups:bytes=256M,updates=200K | FILE.reach]

The policy is that of `linux-thp:khugepaged=off,use_zero_page=off`, and the rows are the same.
"""

import sys

import reach


class LinuxThp(reach.System):
    """Huge pages for all private memory but stacks (mm/huge_memory.c, `enabled=always`, `defrag=madvise`)."""

    name = "thp-in-python"

    def boot(self, vm):
        # A machine without pages of 2 MB takes its smallest larger size, else its largest.
        self.huge = next((size for size in vm.sizes if size >= 2 << 20), vm.sizes[-1])

    def fault(self, fault, vm):
        view = vm.fault_view(fault)
        if fault.cause != "not-present" or not self.first_touch(fault, view, vm):
            vm.demand_fault(fault, view)

    def first_touch(self, fault, view, vm):
        region = view.region
        if region.huge_size:
            return region.huge_size in vm.sizes and self.hugetlb(fault, view, vm)
        if not region.anonymous or region.role == "stack" or region.huge is False:
            return False
        first = vm.extent(fault.page, self.huge, region)
        if first is None:
            return False
        if region.huge and vm.largest_free < self.huge:
            vm.drop_idle_file_pages()
        return vm.map_superpage(first, view, self.huge)

    def hugetlb(self, fault, view, vm):
        """Memory of MAP_HUGETLB gets pages of the size that it asks for, which stay whole."""
        region, size = view.region, view.region.huge_size
        if region.shared:
            if not vm.suits(region, fault.page, size):
                return False
            cached = vm.is_cached(region, fault.page) or vm.cache_folio(region, fault.page, size)
            return cached and vm.map_cached(fault, view, size, whole=True)
        first = vm.extent(fault.page, size, region)
        writable = fault.kind == "store"
        return first is not None and vm.map_superpage(first, view, size, writable=writable, whole=True)


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else "gups:bytes=256M,updates=200K"
    program = reach.open(given) if given.endswith(".reach") else reach.synthetic(given)
    theirs = "linux-thp:khugepaged=off,use_zero_page=off"
    result = reach.compare(program, machines=["zen4"], systems=["base", theirs, LinuxThp])
    print(result)
    rows = {
        system: [{**row, "system": None} for row in result.rows if row["system"] == system]
        for system in (theirs, LinuxThp.name)
    }
    same = [ours == theirs for ours, theirs in zip(rows[LinuxThp.name], rows[theirs])]
    print(f"{sum(same)} of {len(rows[theirs])} rows are the same")
