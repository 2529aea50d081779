"""Systems in Python: a policy that runs on faults, events and ticks."""

from __future__ import annotations

import copy
import hashlib
import inspect
import json

from reach import _reach


class System:
    """An operating-system design in Python.

    Subclass it, override hooks, and name the class in `systems=[...]`. Each simulation has an instance of its own: of a class, by
    calling it without arguments; of an instance, by `copy.deepcopy`. Together, the defaults are demand paging with base pages.

    A hook changes translations through `vm`, which charges for each change; it is valid during the hook only. Pages are numbers of
    base pages (address divided by `vm.base`), sizes are bytes, times are cycles since boot. Hooks run on faults, events and ticks,
    not on references. An exception in a hook ends the run, and `compare` raises it.

    Rows call the system by `name`, a class attribute; without one, by the name of the class. `page_table`, another, is the
    organization of page tables: "radix", "hashed", "chained", "cuckoo", "flattened" or "learned".
    """

    name = None
    page_table = "radix"

    def boot(self, vm):
        """Fits the system to the machine. Called once, before the first event."""

    def event(self, event, vm):
        """Handles an event between two references: a system call, a switch, the end of a process."""
        populate = vm.apply(event)
        if populate is not None:
            self.populate(populate, vm)

    def fault(self, fault, vm):
        """Handles a page fault of the running process. Afterwards the reference must translate."""
        vm.demand_fault(fault)

    def first_write(self, page, vm):
        """Handles the first write to a clean page that is watched."""
        vm.first_write(page)

    def handle(self, misses, vm):
        """Handles a TLB miss of software. Overriding it needs a machine whose TLB software fills, such as alpha-21264.

        misses: what the TLB did since the last call, the oldest first; it ends with this miss and the replacement it caused.
        """

    def tick(self, now, vm):
        """Runs daemons. Called at the first step boundary at or after `next_tick()`; `now` is in cycles since boot."""

    def next_tick(self):
        """Returns the time of the next `tick` in cycles since boot, or None. Asked after boot and after each hook."""
        return None

    def populate(self, populate, vm):
        """Faults in pages that the program asked for ahead of use. Called by the default `event`."""
        vm.populating(True)
        at = populate.start
        while at < populate.end:
            page = vm.page(at)
            if page is not None and (not populate.write or page.writable):
                at = page.page + page.size // vm.base
                continue
            cause = "not-present" if page is None else "protection"
            self.fault(_reach.Fault.of(at, "store" if populate.write else "load", cause), vm)
            at += 1
        vm.populating(False)


def name_of(given):
    """Returns the name in results."""
    kind = given if isinstance(given, type) else type(given)
    name = given.name if given.name is not None else kind.__name__
    if not isinstance(name, str) or not name or any(ord(letter) < 32 for letter in name):
        raise ValueError(f"{kind.__name__}.name: {name!r}, expected a text on one line")
    return name


def facts_of(given):
    """Returns what tells the system from others of its name, for the header: class, a hash of its source, and its state."""
    kind = given if isinstance(given, type) else type(given)
    if given.page_table not in _reach.PAGE_TABLES:
        raise ValueError(f"{kind.__name__}.page_table: {given.page_table!r}, expected one of {', '.join(_reach.PAGE_TABLES)}")
    facts = [("class", f"{kind.__module__}.{kind.__qualname__}"), ("page_table", given.page_table)]
    try:
        classes = [one for one in kind.__mro__ if one not in (System, object)]
        source = "\n".join(inspect.getsource(one) for one in classes)
        facts.append(("source", hashlib.sha256(source.encode()).hexdigest()))
    except (OSError, TypeError):
        pass  # Some interpreters keep no source of a class that was typed in.
    if given is not kind and vars(given):
        facts.append(("state", json.dumps(vars(given), default=repr, sort_keys=True)))
    return facts


def instance_of(given):
    """Returns an instance for one simulation."""
    return given() if isinstance(given, type) else copy.deepcopy(given)
