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


class WithKhugepaged(LinuxThp):
    """Adds khugepaged (mm/khugepaged.c), which copies what base pages hold into huge pages."""

    name = "khugepaged-in-python"
    scan_sleep_millisecs, pages_to_scan = 1, 4096

    def boot(self, vm):
        super().boot(vm)
        self.sleep = self.scan_sleep_millisecs * vm.hertz // 1000
        self.cursor, self.due = (0, 0), self.sleep

    def next_tick(self):
        return self.due

    def tick(self, now, vm):
        self.due = now + self.sleep
        for _ in range(self.pages_to_scan * vm.base // self.huge):
            process, first, region = self.next_extent(vm)
            if first is None:
                self.cursor = (0, 0)
                return
            self.cursor = (process, first * vm.base + self.huge)
            if not self.collapse(process, first, region, vm):
                return

    def next_extent(self, vm):
        """Returns the first extent at or after the cursor that may be collapsed."""
        for process in vm.processes:
            begin = self.cursor[1] if process == self.cursor[0] else 0
            for region in vm.regions(process) if process >= self.cursor[0] else []:
                if region.end > begin and region.anonymous and region.role != "stack" and region.huge is not False:
                    start = -(-max(region.start, begin) // self.huge) * self.huge
                    if start + self.huge <= region.end:
                        return process, vm.page_of(start), region
        return None, None, None

    def collapse(self, process, first, region, vm):
        """Collapses an extent if it may be. Returns False where memory has no huge page for it."""
        count = self.huge // vm.base
        pages = vm.pages(first, count, process)
        if not pages or any(page.size >= self.huge for page in pages):
            return True
        vm.charge("daemon", count * vm.scan_cost)
        present = [page for page in pages if page.contents != "zero"]
        shared = sum(page.size // vm.base for page in present if page.maps > 1)
        used = any(page.accessed for page in pages) and any(page.writable for page in pages)
        if not present or shared > count // 2 or not used:
            return True
        if region.huge and vm.largest_free < self.huge:
            vm.drop_idle_file_pages()
        frame = vm.allocate(self.huge, region, first)
        if frame is not None:
            vm.migrate(first, frame, self.huge, region, label="daemon", process=process)
        return frame is not None


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else "gups:bytes=256M,updates=200K"
    program = reach.open(given) if given.endswith(".reach") else reach.synthetic(given)
    in_rust = "linux-thp:khugepaged=off,use_zero_page=off"
    result = reach.compare(program, machines=["zen4"], systems=["base", in_rust, LinuxThp])
    print(result)
    # Findings and the linear model depend on the part that a system plays in a comparison, not on what it does.
    rows = {
        system: {
            (row["process"], row["metric"]): row["value"]
            for row in result.rows
            if row["system"] == system and not row["metric"].startswith(("finding.", "model."))
        }
        for system in (in_rust, LinuxThp.name)
    }
    ours, theirs = rows[LinuxThp.name], rows[in_rust]
    print(f"{sum(ours.get(key) == value for key, value in theirs.items())} of {len(theirs)} rows are the same")
