"""Systems in Python: hooks, the translation API, and its laws."""

import collections
import traceback

import linux_thp
import pytest
from conftest import PROGRAM, by_metric

import reach

RUST_THP = "linux-thp:khugepaged=off,use_zero_page=off"
GUPS = "gups:bytes=64M,updates=20K"


class Empty(reach.System):
    """The defaults."""


class Plain(reach.System):
    """The defaults, but through Python."""

    def event(self, event, vm):
        super().event(event, vm)

    def fault(self, fault, vm):
        super().fault(fault, vm)

    def first_write(self, page, vm):
        super().first_write(page, vm)


class OnCuckoo(reach.System):
    """The defaults, on elastic cuckoo page tables."""

    page_table = "cuckoo"


class OnTree(reach.System):
    """A page table that there is not."""

    page_table = "tree"


def equal(program, ours, theirs, **options):
    """Asserts that a system in Python has the rows of one in Rust."""
    result = reach.compare(program, "zen4", [theirs, ours], **options)
    found, expected = by_metric(result, ours.name or ours.__name__), by_metric(result, theirs)
    # Speedups are relative to the first system.
    assert found == expected


@pytest.mark.parametrize("system", [Empty, Plain])
@pytest.mark.parametrize("timing", ["ooo", "inorder", "counts"])
def test_the_defaults_are_the_system_base(system, timing):
    equal(reach.synthetic(PROGRAM), system, "base", timing=timing)


def test_the_defaults_are_the_system_base_for_a_real_program(recording):
    for system in (Empty, Plain):
        equal(recording, system, "base", timing="counts")


@pytest.mark.parametrize("timing", ["ooo", "inorder", "counts"])
@pytest.mark.parametrize("program", [GUPS, PROGRAM, "tree:nodes=20000,operations=2000"])
def test_thp_in_python_has_the_rows_of_linux_thp(program, timing):
    equal(reach.synthetic(program), linux_thp.LinuxThp, RUST_THP, timing=timing)


def test_thp_in_python_has_the_rows_of_linux_thp_for_a_real_program(recording):
    for options in ({}, {"timing": "counts"}, {"timing": "inorder", "fragment": "scattered=0.99,hold=0.2"}):
        equal(recording, linux_thp.LinuxThp, RUST_THP, **options)


@pytest.mark.parametrize("timing", [pytest.param("inorder", marks=pytest.mark.slow), "counts"])
def test_khugepaged_in_python_has_the_rows_of_linux_thp(timing):
    # The heap grows in small steps, so that faults find no huge page and the daemon does.
    program = reach.synthetic("tree:nodes=50000,operations=5000")
    theirs = "linux-thp:scan_sleep_millisecs=1,alloc_sleep_millisecs=1,use_zero_page=off"
    equal(program, linux_thp.WithKhugepaged, theirs, timing=timing)
    assert reach.run(program, "zen4", linux_thp.WithKhugepaged, timing=timing).value("promotions") > 3


def test_hooks_run_at_events_and_faults_but_not_at_references(recording):
    # This is what keeps a system in Python fast; its time is in docs/python.md.
    calls = collections.Counter()

    class Counts(reach.System):
        def event(self, event, vm):
            calls["event"] += 1
            super().event(event, vm)

        def fault(self, fault, vm):
            calls["fault"] += 1
            super().fault(fault, vm)

        def tick(self, now, vm):
            calls["tick"] += 1

    result = reach.run(recording, "zen4", Counts, timing="counts")
    # What the kernel itself touches at an event, such as the arguments on a new stack, faults within the event.
    assert 0.9 * result.value("page_faults") < calls["fault"] <= result.value("page_faults")
    # A system without an interval has no ticks.
    assert calls["tick"] == 0
    assert calls.total() < (result.value("loads") + result.value("stores")) / 100


def test_an_exception_in_a_hook_ends_the_run_with_the_users_traceback():
    class Fails(reach.System):
        def fault(self, fault, vm):
            vm.demand_fault(fault)
            if vm.counters["page_faults"] == 5:
                raise LookupError("the fifth fault")

    for options in ({"threads": 1}, {"threads": 2}, {"timing": "counts"}):
        with pytest.raises(LookupError, match="the fifth fault") as raised:
            reach.compare(reach.synthetic(GUPS), "zen4", ["base", Fails], **options)
        assert "in fault" in "".join(traceback.format_exception(raised.type, raised.value, raised.tb))


@pytest.mark.parametrize("hook", ["boot", "__init__", "event", "tick", "next_tick"])
def test_every_hook_may_raise(hook):
    def fails(self, *_):
        raise LookupError(hook)

    kind = type("Fails", (reach.System,), {hook: fails, **({"next_tick": lambda self: 0} if hook == "tick" else {})})
    with pytest.raises(LookupError, match=hook):
        reach.run(reach.synthetic("gups:bytes=64M,updates=400K"), "zen4", kind, timing="counts")


def test_a_vm_is_valid_during_its_hook_only():
    kept = []

    class Keeps(reach.System):
        def boot(self, vm):
            kept.append(vm)

    reach.run(reach.synthetic(GUPS), "zen4", Keeps, timing="counts", limit=1000)
    for use in (lambda vm: vm.free, lambda vm: vm.page(0), lambda vm: vm.charge("fault", 1)):
        with pytest.raises(reach.Error, match="valid during a hook only"):
            use(kept[0])


def test_ticks_come_in_time_and_are_charged():
    ticks = []

    class Ticks(reach.System):
        def boot(self, vm):
            self.due = 1_000_000

        def next_tick(self):
            return self.due

        def tick(self, now, vm):
            ticks.append((now, self.due))
            vm.charge("daemon", 1000)
            self.due = now + 2_000_000

    result = reach.run(reach.synthetic("gups:bytes=64M,updates=1M"), "zen4", Ticks, timing="inorder")
    assert len(ticks) > 3 and all(now >= due for now, due in ticks)
    assert result.value("cycles.daemon") == 1000 * len(ticks)


def test_instances_are_copied_and_their_state_is_in_the_header():
    class Counts(reach.System):
        name = "counts-faults"

        def __init__(self, step):
            self.step, self.faults = step, []

        def fault(self, fault, vm):
            self.faults.append(fault.page)
            vm.demand_fault(fault)

    mine = Counts(4)
    first, other = (
        reach.compare(reach.synthetic(GUPS), "zen4", [system], timing="counts") for system in (mine, Counts(5))
    )
    assert mine.faults == [] and first.header["hash"] != other.header["hash"]
    settings = first.header["systems"][0]["settings"]
    assert settings["state"] == '{"faults": [], "step": 4}' and settings["class"].endswith("Counts")
    assert len(settings["source"]) == 64


def test_the_translation_api_keeps_its_laws():
    seen = {}

    class Walks(reach.System):
        """Takes one extent through the whole API."""

        def fault(self, fault, vm):
            view, huge = vm.fault_view(fault), 2 << 20
            first = vm.extent(fault.page, huge, view.region)
            if seen or first is None or not view.region.anonymous:
                return vm.demand_fault(fault, view)
            base, pages = vm.base, huge // vm.base
            free = vm.free
            frame = vm.allocate(huge, view.region, first)
            assert vm.free == free - huge and frame % pages == 0
            vm.zero(frame, huge)
            for at in range(pages):
                vm.charge_fault("anonymous") if at == 0 else None
                vm.map(first + at, frame + at, base, view)
            assert [page.size for page in vm.pages(first, pages)] == [base] * pages
            assert vm.promote(first, huge) is None
            page = vm.page(fault.page)
            assert (page.page, page.size, page.frame, page.maps) == (first, huge, frame, 1)
            assert vm.promote(first, huge) == "the extent is mapped by a page of at least that size already"
            vm.demote(first, base)
            assert vm.page(first + 1).size == base and len(vm.pages(first, pages)) == pages
            vm.protect(first, 1, writable=False)
            assert not vm.page(first).writable and vm.page(first + 1).writable
            assert vm.promote(first, huge) == "the pages differ in their access rights"
            vm.protect(first, 1, writable=True)
            other = vm.allocate(huge, view.region, first)
            vm.migrate(first, other, huge, view)
            assert vm.page(first).frame == other and vm.free == free - huge - vm.counters["page_table_bytes"] + seen_tables
            vm.unmap(first, pages, label="daemon")
            assert vm.page(first) is None
            assert vm.map_superpage(first, view, huge)
            seen.update(vm.counters)

    seen_tables = 0

    class Tables(Walks):
        def event(self, event, vm):
            nonlocal seen_tables
            super().event(event, vm)
            seen_tables = vm.counters["page_table_bytes"]

        def fault(self, fault, vm):
            nonlocal seen_tables
            seen_tables = vm.counters["page_table_bytes"]
            super().fault(fault, vm)

    result = reach.run(reach.synthetic(GUPS), "zen4", Tables, timing="inorder")
    assert seen["promotions"] == 2 and seen["demotions"] >= 1 and seen["shootdowns"] >= 4
    labels = sum(row["value"] for row in result.rows if row["metric"].startswith("cycles.") and row["process"] == "all")
    assert labels == result.value("cycles")
    assert result.value("bytes_copied") >= 2 << 20


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda vm, fault, view: vm.map(fault.page, 1 << 40, 4096, view), "expected a block that `allocate` gave"),
        (lambda vm, fault, view: vm.map(fault.page, vm.allocate(4096, view.region, fault.page), 8192, view), "page sizes are"),
        (lambda vm, fault, view: vm.map_superpage(fault.page | 1, view, 2 << 20), "aligned to 2M"),
        (lambda vm, fault, view: vm.map_superpage(0, view, 2 << 20), "no region of process"),
        (lambda vm, fault, view: vm.allocate(3000, view.region, fault.page), "expected a power of two"),
        (lambda vm, fault, view: vm.page(1 << 60), "expected 1 or more pages below"),
        (lambda vm, fault, view: vm.pages(0, 1, process=77), "no process 77"),
        (lambda vm, fault, view: vm.charge("walk", 1), 'label "walk": expected fault'),
        (lambda vm, fault, view: vm.charge_fault("odd"), 'kind "odd": expected anonymous'),
        (lambda vm, fault, view: vm.release(0, 4096), "expected a block that `allocate` gave"),
        (lambda vm, fault, view: vm.reserved_fault(fault), "call use_reservations in boot"),
        (lambda vm, fault, view: vm.use_reservations(), "is for boot only"),
        (lambda vm, fault, view: vm.cache_folio(view.region, fault.page, 65536), "expected a region of a file"),
    ],
)
def test_what_the_api_cannot_do_is_an_exception(act, text):
    class Tries(reach.System):
        def fault(self, fault, vm):
            view = vm.fault_view(fault)
            if view.region.anonymous:
                act(vm, fault, view)
            vm.demand_fault(fault, view)

    with pytest.raises((ValueError, reach.Error)) as raised:
        reach.run(reach.synthetic(GUPS), "zen4", Tries, timing="counts")
    assert text in str(raised.value)


def test_mapping_over_a_page_is_refused():
    class Twice(reach.System):
        def fault(self, fault, vm):
            view = vm.fault_view(fault)
            vm.demand_fault(fault, view)
            vm.map(fault.page, vm.allocate(vm.base, view.region, fault.page), vm.base, view)

    with pytest.raises(ValueError, match="mapped there already"):
        reach.run(reach.synthetic(GUPS), "zen4", Twice, timing="counts")


def test_memory_that_runs_out_in_a_hook_is_an_exception():
    class Greedy(reach.System):
        def boot(self, vm):
            self.failed = False

        def fault(self, fault, vm):
            view = vm.fault_view(fault)
            while vm.allocate(vm.base, view.region, fault.page) is not None:
                pass
            vm.demand_fault(fault, view)

    with pytest.raises(reach.OutOfMemory, match="out of simulated memory"):
        reach.run(reach.synthetic(GUPS), "zen4", Greedy, timing="counts", memory="64M")


def test_reservations_in_python_have_the_rows_of_freebsd_where_memory_is_plenty():
    class Reserves(reach.System):
        name = "reserves"

        def boot(self, vm):
            vm.use_reservations([2 << 20])

        def fault(self, fault, vm):
            vm.reserved_fault(fault)

    program = reach.synthetic("touch:bytes=16M,page=4K")
    result = reach.compare(program, "zen4", ["freebsd:step_cycles=0", Reserves], timing="counts")
    ours, theirs = by_metric(result, "reserves"), by_metric(result, "freebsd:step_cycles=0")
    for metric in ("page_faults", "promotions", "reservations", "walks", "peak_resident_bytes", "superpages.2M"):
        assert ours["all", metric] == theirs["all", metric], metric
    assert ours["all", "promotions"][0] > 0


def test_misses_of_software_reach_their_hook():
    seen = []

    class Handles(reach.System):
        def handle(self, misses, vm):
            seen.append([miss.what for miss in misses])

    result = reach.run(reach.synthetic("gups:bytes=4M,updates=2K"), "alpha-21264", Handles, timing="counts")
    assert seen and "miss" in seen[0] and result.value("page_faults") > 0
    with pytest.raises(reach.Error, match="software-managed TLB"):
        reach.run(reach.synthetic(GUPS), "zen4", Handles, timing="counts")


def test_names_of_systems_are_texts_on_one_line():
    class Odd(reach.System):
        name = "a\nb"

    with pytest.raises(ValueError, match="expected a text on one line"):
        reach.run(reach.synthetic(GUPS), "zen4", Odd)


def test_a_system_names_its_page_table():
    equal(reach.synthetic(GUPS), OnCuckoo, "base:page_table=cuckoo")
    with pytest.raises(ValueError, match="OnTree.page_table: 'tree', expected one of radix, hashed"):
        reach.compare(reach.synthetic(GUPS), "zen4", [OnTree])
