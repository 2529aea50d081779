// The machine of the examples in the documentation, as an expression.
{
    use reach_core::{Layout, PageShift};
    use reach_hardware::config::{Cache, Core, Index, Machine, Replacement, Serves, Tlb, WalkCache, Walker, Writes};

    let (small, large) = (PageShift(12), PageShift(21));
    let array = |name: &str, level, serves, entries, latency| Tlb {
        name: name.into(),
        level,
        serves,
        entries,
        ways: 4,
        sizes: vec![small, large],
        replacement: Replacement::Lru,
        index: Index::Low,
        latency,
        probe: 0,
        smash: false,
        coalesce: None,
    };
    let code = Serves { fetch: true, ..Serves::default() };
    let data = Serves { load: true, store: true, ..Serves::default() };
    let all = Serves { fetch: true, load: true, store: true };
    let pde = WalkCache { name: "pde".into(), levels: vec![1], entries: 16, ways: 16, within: None };
    Machine {
        layout: Layout::x86_64(),
        sizes: vec![small, large],
        tlbs: vec![array("l1i", 1, code, 64, 0), array("l1d", 1, data, 64, 0), array("l2", 2, all, 128, 7)],
        walker: Walker::Hardware { walkers: 1, lookup: 2, cache_level: 1, caches: vec![pde] },
        nested: None,
        caches: vec![Cache {
            name: "l1d".into(),
            level: 1,
            instructions: false,
            data: true,
            bytes: 32 << 10,
            ways: 8,
            line: 64,
            latency: 4,
            writes: Writes::Back,
            replacement: Replacement::Lru,
            shared: false,
            others: 0,
        }],
        memory: 200,
        core: Core {
            millicycles_per_instruction: 500,
            hertz: 3_000_000_000,
            walk_access: 20,
            invalidate: 250,
            asids: 4096,
        },
    }
}
