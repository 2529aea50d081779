//! A twin of `bc` that stores all data.

use super::*;
use crate::synthetic::generator;
use crate::synthetic::tests::events;

/// A variable of the program outside its arrays. Only its references matter, so it has no value.
struct Variable<'a> {
    at: u64,
    size: u8,
    references: &'a RefCell<Vec<Reference>>,
}

impl Variable<'_> {
    fn load(&self) {
        self.references.borrow_mut().push((Kind::Load, self.at, self.size));
    }

    fn store(&self) {
        self.references.borrow_mut().push((Kind::Store, self.at, self.size));
    }
}

/// Runs `bc.c` on the stored rows, level by level, with the sources of `actual`. Returns the references, and the number
/// of levels of each search.
fn centrality(spec: &str, searches: u64, actual: &[Reference]) -> (Vec<Reference>, Vec<usize>) {
    let graph = graph(spec);
    let n = graph.vertices as usize;
    let Memory { mut areas, references } = Memory::of(spec);
    let (offsets, targets) = rows(&graph);
    let offsets = array!(references, areas, offsets);
    let targets = array!(references, areas, targets);
    let mut depth = array!(references, areas, vec![0i32; n]);
    let mut paths = array!(references, areas, vec![0f64; n]);
    let mut score = array!(references, areas, vec![0f32; n]);
    let mut dependency = array!(references, areas, vec![0f32; n]);
    let mut queue = array!(references, areas, vec![0u32; n]);
    let mut next_level = array!(references, areas, vec![0u64; targets.items.len() / 64 + 1]);
    let data = Process::new("twin").data().0;
    let variable = |at, size| Variable { at, size, references: &references };
    let [queue_ptr, row_ptr, near_ptr, depth_ptr, next_level_ptr, paths_ptr] =
        [0, 8, 16, 24, 32, 40].map(|offset| variable(data + offset, 3));
    let current_level = variable(data + 48, 2);
    let sum_on_stack = variable(Process::new("twin").stack_top().0 - 64, 3);
    let clear = |at: u64, bytes: usize| {
        let words = (0..bytes.div_ceil(8) as u64).map(|word| (Kind::Store, at + 8 * word, 3));
        references.borrow_mut().extend(words);
    };
    clear(score.at, n * 4);
    let (mut depths, mut expected) = (Vec::new(), vec![0f64; n]);
    for _ in 0..searches {
        clear(depth.at, n * 4);
        clear(paths.at, n * 8);
        clear(dependency.at, n * 4);
        clear(next_level.at, next_level.items.len() * 8);
        depth.items.fill(-1);
        paths.items.fill(0.0);
        dependency.items.fill(0.0);
        next_level.items.fill(0);
        let source = (actual[references.borrow().len() + 1].1 - depth.at) / 4;
        depth_ptr.load();
        depth.set(source, 0);
        paths_ptr.load();
        paths.set(source, 1.0);
        queue_ptr.load();
        queue.set(0, source as u32);
        let (mut levels, mut tail, mut current) = (vec![0, 1], 1, 0);
        while levels[current + 1] > levels[current] {
            for i in levels[current]..levels[current + 1] {
                queue_ptr.load();
                let u = u64::from(queue.get(i));
                let mut k = offsets.get(u);
                let mut end = offsets.get(u + 1);
                while k < end {
                    near_ptr.load();
                    depth_ptr.load();
                    let v = u64::from(targets.get(k));
                    let mut old = depth.get(v);
                    let next = current as i32 + 1;
                    if old == -1 {
                        depth.get(v);
                        depth.set(v, next);
                        queue_ptr.load();
                        queue.set(tail, v as u32);
                        tail += 1;
                        current_level.load();
                        old = next;
                    }
                    if old == next {
                        next_level_ptr.load();
                        let bits = next_level.get(k / 64);
                        next_level.set(k / 64, bits | 1 << (k % 64));
                        paths_ptr.load();
                        let more = paths.get(u);
                        let sum = paths.get(v) + more;
                        sum_on_stack.store();
                        sum_on_stack.load();
                        paths.get(v);
                        paths.set(v, sum);
                        current_level.load();
                    }
                    k += 1;
                    row_ptr.load();
                    end = offsets.get(u + 1);
                }
            }
            levels.push(tail);
            current += 1;
        }
        for ends in levels[..=current].windows(2).rev() {
            for i in ends[0]..ends[1] {
                let u = u64::from(queue.get(i));
                let (from, to) = (offsets.get(u), offsets.get(u + 1));
                let mut sum = 0f32;
                for k in from..to {
                    if next_level.get(k / 64) >> (k % 64) & 1 != 0 {
                        let v = u64::from(targets.get(k));
                        let share = paths.get(u);
                        let through = 1.0 + dependency.get(v);
                        sum = (f64::from(sum) + share / paths.get(v) * f64::from(through)) as f32;
                    }
                }
                dependency.set(u, sum);
                let all = score.get(u) + sum;
                score.set(u, all);
            }
        }
        depths.push(current);
        let distances = brandes(&offsets.items, &targets.items, source as usize, &mut expected);
        assert!(distances == depth.items, "{spec}: depths");
    }
    let most = expected.iter().fold(0.0, |a: f64, b| a.max(*b));
    let near = |(a, b): (&f32, &f64)| (f64::from(*a) - b).abs() < 1e-4 * most;
    assert!(most > 0.0 && score.items.iter().zip(&expected).all(near), "{spec}: scores");
    (references.into_inner(), depths)
}

/// Computes the centrality by its definition, with a queue and without levels, and adds it to `score`. Returns the
/// distance of every vertex.
fn brandes(offsets: &[u64], targets: &[u32], source: usize, score: &mut [f64]) -> Vec<i32> {
    let n = score.len();
    let neighbours = |v: usize| targets[offsets[v] as usize..offsets[v + 1] as usize].iter().map(|&w| w as usize);
    let (mut distance, mut paths, mut dependency) = (vec![-1; n], vec![0f64; n], vec![0f64; n]);
    let mut queue = vec![source];
    (distance[source], paths[source]) = (0, 1.0);
    let mut head = 0;
    while let Some(&u) = queue.get(head) {
        head += 1;
        for v in neighbours(u) {
            if distance[v] < 0 {
                distance[v] = distance[u] + 1;
                queue.push(v);
            }
            if distance[v] == distance[u] + 1 {
                paths[v] += paths[u];
            }
        }
    }
    for &w in queue.iter().rev() {
        for v in neighbours(w).filter(|&v| distance[v] == distance[w] - 1) {
            dependency[v] += paths[v] / paths[w] * (1.0 + dependency[w]);
        }
        score[w] += dependency[w];
    }
    distance
}

#[test]
fn bc_makes_the_references_of_centrality_on_stored_rows() {
    let mut most = 0;
    for (spec, searches) in [
        ("bc:bytes=8K,degree=4", 1),
        ("bc:bytes=40K,degree=4,searches=4,seed=2", 4),
        ("bc:bytes=3M,degree=4,searches=2,seed=3", 2),
        ("bc:bytes=300K,degree=6,searches=3,seed=5", 3),
        ("bc:bytes=1M,seed=9", 1),
        ("bc:bytes=6M,searches=2", 2),
    ] {
        let actual = references(spec);
        let (expected, depths) = centrality(spec, searches, &actual);
        assert_same(&actual, &expected, spec);
        most = most.max(depths.into_iter().max().unwrap());
    }
    assert!(most > 8, "{most} levels are too few to recompute one level from another recomputed level");
}

#[test]
fn bc_announces_each_search_and_backward_pass() {
    let source = generator("bc:bytes=100K,searches=2,degree=8", 1000).unwrap();
    let (mut at, mut names) = (Vec::new(), Vec::new());
    for (before, event) in events(source) {
        if let Event::Phase(name) = event {
            at.push(before);
            names.push(name);
        }
    }
    assert_eq!(names, ["init", "search", "back", "search", "back"]);
    // A search clears arrays and makes at least seven references per edge; the backward pass makes five at most.
    assert!(at.is_sorted() && at[0] == 0 && at[2] - at[1] > at[3] - at[2]);
}
