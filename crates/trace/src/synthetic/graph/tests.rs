//! Twins of the graph programs that store the graph and all computed arrays, and record every reference.

use super::super::parameter::{SEED, Values};
use super::super::process::Process;
use super::super::tests::data;
use super::*;
use reach_core::{Event, Kind};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Kind, address, and binary logarithm of the size of a reference.
type Reference = (Kind, u64, u8);

/// An array at a simulated address, which records its references.
struct Array<'a, T> {
    at: u64,
    items: Vec<T>,
    references: &'a RefCell<Vec<Reference>>,
}

impl<T: Copy> Array<'_, T> {
    fn record(&self, kind: Kind, i: u64) {
        let bytes = size_of::<T>() as u64;
        self.references.borrow_mut().push((kind, self.at + i * bytes, bytes.ilog2() as u8));
    }

    fn get(&self, i: u64) -> T {
        self.record(Kind::Load, i);
        self.items[i as usize]
    }

    fn set(&mut self, i: u64, item: T) {
        self.record(Kind::Store, i);
        self.items[i as usize] = item;
    }
}

/// The memory of a program: the addresses of its mappings in order, and all references.
struct Memory {
    areas: std::vec::IntoIter<u64>,
    references: RefCell<Vec<Reference>>,
}

impl Memory {
    fn of(spec: &str) -> Memory {
        let source = super::super::generator(spec, 1).unwrap();
        let anonymous = |event: &Event| match event {
            Event::Map(map) if map.role == reach_core::Role::Mmap => Some(map.span.start.0),
            _ => None,
        };
        let areas: Vec<u64> = source.start.iter().filter_map(anonymous).collect();
        Memory { areas: areas.into_iter(), references: RefCell::default() }
    }
}

macro_rules! array {
    ($memory:ident, $areas:ident, $items:expr) => {
        Array { at: $areas.next().unwrap(), items: $items, references: &$memory }
    };
}

mod bc;
mod blocks;

fn graph(text: &str) -> Graph {
    static PARAMETERS: &[Parameter] = &[GRAPH, BYTES, DEGREE, INIT, SEED];
    let common = text.split_once(':').unwrap().1.split(',');
    let known = common.filter(|pair| PARAMETERS.iter().any(|p| pair.starts_with(&format!("{}=", p.name))));
    let values = Values::read(PARAMETERS, &known.collect::<Vec<_>>().join(",")).unwrap();
    let (bits, ids) = match text.split(':').next() {
        Some("bfs") => (2, 2),
        Some("bc") => (160 + values.number("degree"), 1),
        Some("pr") => (64, 0),
        _ => (0, 0),
    };
    Graph::new(&values, &mut Process::new("twin"), bits, ids).unwrap()
}

/// Returns the stored rows: offsets, and neighbours.
fn rows(graph: &Graph) -> (Vec<u64>, Vec<u32>) {
    let (mut offsets, mut targets, mut list) = (vec![0], Vec::new(), Vec::new());
    for v in 0..graph.vertices {
        graph.neighbours(v, &mut list);
        targets.extend(list.iter().map(|&v| v as u32));
        offsets.push(targets.len() as u64);
    }
    (offsets, targets)
}

/// Returns the references of the generator, without first writes unless `spec` asks for them.
fn references(spec: &str) -> Vec<Reference> {
    let init = if spec.contains("init") { "" } else { ",init=no" };
    data(&format!("{spec}{init}")).iter().map(|r| (r.kind(), r.addr().0, r.size_log2())).collect()
}

/// Asserts that both are equal, and prints only the first difference.
fn assert_same(actual: &[Reference], expected: &[Reference], spec: &str) {
    let first = actual.iter().zip(expected).position(|(a, b)| a != b);
    let difference = first.map(|at| (at, actual[at], expected[at]));
    let lengths = (actual.len(), expected.len());
    assert!(difference.is_none() && lengths.0 == lengths.1, "{spec}: {difference:?}, {lengths:?}");
}

#[test]
fn edges_are_symmetric_and_uniform() {
    for spec in ["pr:bytes=20K,degree=2", "pr:bytes=100K,degree=8,seed=3", "pr:bytes=1M"] {
        let graph = graph(spec);
        let mut edges = BTreeMap::new();
        let mut list = Vec::new();
        for v in 0..graph.vertices {
            graph.neighbours(v, &mut list);
            assert!(list.len() as u64 == graph.degree && list.is_sorted());
            for &w in &list {
                assert!(w < graph.vertices);
                *edges.entry((v, w)).or_insert(0) += 1;
            }
        }
        assert!(edges.iter().all(|(&(v, w), count)| edges[&(w, v)] == *count), "{spec}");
        // Neighbours are uniform, so a quarter of all edges falls into each quarter of the pairs.
        let quarter = edges.keys().filter(|(v, w)| (v / 3) % 4 == (w / 5) % 4).count() as f64 / edges.len() as f64;
        assert!((quarter - 0.25).abs() < 0.1, "{spec}: {quarter}");
    }
}

#[test]
fn mappings_add_up_to_the_requested_bytes() {
    let sizes = [("bfs:bytes=10M", 6), ("bc:bytes=10M", 8), ("pr:bytes=10M", 4), ("tc:bytes=10M", 2)];
    for (spec, arrays) in sizes.into_iter().chain([("bfs:bytes=600G", 6), ("bc:bytes=600G", 8)]) {
        let source = super::super::generator(spec, 1).unwrap();
        let lengths = source.start.iter().filter_map(|event| match event {
            Event::Map(map) if map.role == reach_core::Role::Mmap => Some(map.span.len),
            _ => None,
        });
        let lengths: Vec<u64> = lengths.collect();
        let (sum, wanted) = (lengths.iter().sum::<u64>(), if spec.contains('G') { 600 << 30 } else { 10 << 20 });
        assert_eq!(lengths.len(), arrays);
        assert!(sum <= wanted + 16 && sum > wanted - 4096, "{spec}: {sum}");
    }
}

/// Runs GAP's search on the stored rows. Returns its references, and the direction of each step.
fn search(spec: &str, sources: &[u64]) -> (Vec<Reference>, Vec<&'static str>) {
    let graph = graph(spec);
    let n = graph.vertices;
    let Memory { mut areas, references } = Memory::of(spec);
    let (offsets, targets) = rows(&graph);
    let edges = targets.len() as i64;
    let offsets = array!(references, areas, offsets);
    let targets = array!(references, areas, targets);
    let mut parent = array!(references, areas, vec![0i32; n as usize]);
    let mut queue = array!(references, areas, vec![0u32; n as usize]);
    let words = n.div_ceil(64);
    let mut front = array!(references, areas, vec![0u64; words as usize]);
    let mut next = array!(references, areas, vec![0u64; words as usize]);
    let mut steps = Vec::new();
    for &source in sources {
        for v in 0..n {
            let degree = offsets.get(v) as i64 - offsets.get(v + 1) as i64;
            parent.set(v, degree as i32);
        }
        parent.set(source, source as i32);
        queue.set(0, source as u32);
        front.items.fill(0);
        let (mut head, mut tail, mut scout, mut unexplored) = (0, 1, graph.degree as i64, edges);
        while head < tail {
            if scout > unexplored / 15 {
                for i in head..tail {
                    let v = u64::from(queue.get(i));
                    let word = front.get(v / 64);
                    front.set(v / 64, word | 1 << (v % 64));
                }
                let mut awake = tail - head;
                head = tail;
                loop {
                    steps.push("up");
                    let before = std::mem::take(&mut awake);
                    for word in 0..words {
                        next.set(word, 0);
                    }
                    for u in 0..n {
                        if parent.get(u) >= 0 {
                            continue;
                        }
                        let (from, to) = (offsets.get(u), offsets.get(u + 1));
                        for i in from..to {
                            let v = u64::from(targets.get(i));
                            if front.get(v / 64) >> (v % 64) & 1 != 0 {
                                parent.set(u, v as i32);
                                let word = next.get(u / 64);
                                next.set(u / 64, word | 1 << (u % 64));
                                awake += 1;
                                break;
                            }
                        }
                    }
                    std::mem::swap(&mut front, &mut next);
                    if awake < before && awake <= n / 18 {
                        break;
                    }
                }
                for u in 0..n {
                    if front.get(u / 64) >> (u % 64) & 1 != 0 {
                        queue.set(tail, u as u32);
                        tail += 1;
                    }
                }
                scout = 1;
            } else {
                steps.push("down");
                unexplored -= scout;
                scout = 0;
                let end = tail;
                while head < end {
                    let u = u64::from(queue.get(head));
                    head += 1;
                    let (from, to) = (offsets.get(u), offsets.get(u + 1));
                    for i in from..to {
                        let v = u64::from(targets.get(i));
                        let old = parent.get(v);
                        if old < 0 {
                            parent.set(v, u as i32);
                            queue.set(tail, v as u32);
                            tail += 1;
                            scout -= i64::from(old);
                        }
                    }
                }
            }
        }
        // Checks the result against a plain search.
        let mut depth = vec![u32::MAX; n as usize];
        depth[source as usize] = 0;
        let mut plain = std::collections::VecDeque::from([source]);
        while let Some(u) = plain.pop_front() {
            for i in offsets.items[u as usize]..offsets.items[u as usize + 1] {
                let v = targets.items[i as usize] as usize;
                if depth[v] == u32::MAX {
                    depth[v] = depth[u as usize] + 1;
                    plain.push_back(v as u64);
                }
            }
        }
        for v in (0..n as usize).filter(|&v| v as u64 != source) {
            let parent = parent.items[v];
            assert_eq!(parent >= 0, depth[v] != u32::MAX, "{spec}: {v}");
            assert!(
                parent < 0 || depth[parent as usize] + 1 == depth[v],
                "{spec}: {v} is not on the level after its parent's"
            );
        }
    }
    (references.into_inner(), steps)
}

#[test]
fn bfs_makes_the_references_of_a_search_on_stored_rows() {
    let mut both = 0;
    for spec in [
        "bfs:bytes=8K,degree=2",
        "bfs:bytes=40K,degree=4,seed=2",
        "bfs:bytes=300K,degree=6,searches=3,seed=5",
        "bfs:bytes=1M,seed=9",
        "bfs:bytes=6M,searches=2",
        "bfs:bytes=3M,degree=12,seed=4",
    ] {
        let actual = references(spec);
        // The sources are known to the generator only. The first store after a pass over all parents is to the
        // source's.
        let graph = graph(spec);
        let parents = Memory::of(spec).areas.nth(2).unwrap();
        let n = graph.vertices as usize;
        let sources: Vec<u64> = (0..actual.len())
            .filter(|&i| {
                i >= 3 * n && (0..n).all(|v| actual[i - 3 * n + 3 * v + 2] == (Kind::Store, parents + 4 * v as u64, 2))
            })
            .map(|i| (actual[i].1 - parents) / 4)
            .collect();
        let (expected, steps) = search(spec, &sources);
        assert_same(&actual, &expected, spec);
        let changes = steps.windows(2).filter(|pair| pair[0] != pair[1]).count();
        both += usize::from(changes >= 2);
    }
    assert!(both >= 3, "only {both} of the programs step down, up and down again");
}

#[test]
fn pr_makes_the_references_of_page_rank_on_stored_rows() {
    for spec in ["pr:bytes=100K,iterations=3,degree=8", "pr:bytes=1M,iterations=2,seed=3"] {
        let graph = graph(spec);
        let n = graph.vertices;
        let Memory { mut areas, references: recorded } = Memory::of(spec);
        let (offsets, targets) = rows(&graph);
        let offsets = array!(recorded, areas, offsets);
        let targets = array!(recorded, areas, targets);
        let mut scores = array!(recorded, areas, vec![0f32; n as usize]);
        let mut contributions = array!(recorded, areas, vec![0f32; n as usize]);
        for v in 0..n {
            let degree = (offsets.get(v + 1) as f32) - (offsets.get(v) as f32);
            scores.set(v, 1.0 / n as f32);
            contributions.set(v, 1.0 / n as f32 / degree);
        }
        for _ in 0..if spec.contains("=3,") { 3 } else { 2 } {
            for v in 0..n {
                let (from, to) = (offsets.get(v), offsets.get(v + 1));
                let sum: f32 = (from..to).map(|i| contributions.get(u64::from(targets.get(i)))).sum();
                let _error = scores.get(v);
                let score = 0.15 / n as f32 + 0.85 * sum;
                scores.set(v, score);
                contributions.set(v, score / (to - from) as f32);
            }
        }
        assert!((scores.items.iter().sum::<f32>() - 1.0).abs() < 1e-3);
        assert_same(&references(spec), &recorded.into_inner(), spec);
    }
}

#[test]
fn tc_makes_the_references_of_counting_on_stored_rows() {
    for spec in ["tc:bytes=30K,degree=16", "tc:bytes=8K,degree=6,seed=2", "tc:bytes=500K,seed=3"] {
        let graph = graph(spec);
        let Memory { mut areas, references: recorded } = Memory::of(spec);
        let (offsets, targets) = rows(&graph);
        let offsets = array!(recorded, areas, offsets);
        let targets = array!(recorded, areas, targets);
        let (mut triangles, mut expected) = (0u64, 0u64);
        for u in 0..graph.vertices {
            let (from, to) = (offsets.get(u), offsets.get(u + 1));
            for i in from..to {
                let v = u64::from(targets.get(i));
                if v > u {
                    break;
                }
                let (first, last) = (offsets.get(v), offsets.get(v + 1));
                let mut at = offsets.get(u);
                for j in first..last {
                    let w = u64::from(targets.get(j));
                    if w > v {
                        break;
                    }
                    while u64::from(targets.get(at)) < w {
                        at += 1;
                    }
                    triangles += u64::from(u64::from(targets.items[at as usize]) == w);
                }
            }
            // Counts the same triangles pair by pair.
            let row = &targets.items[offsets.items[u as usize] as usize..][..graph.degree as usize];
            for &v in row.iter().filter(|&&v| u64::from(v) <= u) {
                let far = &targets.items[offsets.items[v as usize] as usize..][..graph.degree as usize];
                expected += far.iter().filter(|&&w| w <= v && row.contains(&w)).count() as u64;
            }
        }
        assert!(triangles == expected && triangles > 0, "{spec}: {triangles}, {expected}");
        assert_same(&references(spec), &recorded.into_inner(), spec);
    }
}

#[test]
fn initialisation_writes_all_arrays() {
    let first = |init: &str| {
        let all = references(&format!("tc:bytes=100K,most=1,init={init}"));
        let stores: Vec<u64> = all.iter().filter(|r| r.0 == Kind::Store).map(|r| r.1).collect();
        assert!(all[..stores.len()].iter().all(|r| r.0 == Kind::Store));
        stores
    };
    let areas: Vec<u64> = Memory::of("tc:bytes=100K").areas.collect();
    let words = first("yes");
    assert!(words.len() as u64 > 99 * 128 && words.windows(2).filter(|pair| pair[1] != pair[0] + 8).count() == 1);
    let pages = |stores: &[u64]| stores.iter().map(|at| at >> 12).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(pages(&first("pages")), pages(&words));
    assert!(first("pages").len() <= 26 && areas.iter().all(|at| words.contains(at)));
    assert!(first("no").is_empty());
}

#[test]
fn impossible_graphs_are_refused() {
    let error = |spec: &str| super::super::parse(spec).err().unwrap().to_string();
    assert!(error("bfs:degree=3").contains("is odd"));
    assert!(error("bc:degree=2").contains("give 4 or more"));
    assert!(error("bc:degree=4,bytes=1T").contains("2^32 are the most"));
    assert!(error("bfs:degree=2,bytes=1T").contains("2^32 are the most"));
    assert!(error("pr:graph=kron").contains("is not accepted; give urand"));
}
