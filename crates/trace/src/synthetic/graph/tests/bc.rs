//! Betweenness centrality with all its data.

use super::*;
use crate::synthetic::generator;
use crate::synthetic::tests::events;

/// One word of the program's own: it holds nothing here.
struct Word<'a> {
    at: u64,
    size: u8,
    places: &'a RefCell<Vec<Place>>,
}

impl Word<'_> {
    fn load(&self) {
        self.places.borrow_mut().push((Kind::Load, self.at, self.size));
    }

    fn store(&self) {
        self.places.borrow_mut().push((Kind::Store, self.at, self.size));
    }
}

/// `bc.c` on the rows, level by level; where searches begin is taken from `ours`. Returns also the number of levels of each.
fn centrality(spec: &str, searches: u64, ours: &[Place]) -> (Vec<Place>, Vec<usize>) {
    let graph = graph(spec);
    let n = graph.vertices as usize;
    let Memory { mut areas, places } = Memory::of(spec);
    let (offsets, targets) = rows(&graph);
    let offsets = array!(places, areas, offsets);
    let targets = array!(places, areas, targets);
    let mut depth = array!(places, areas, vec![0i32; n]);
    let mut paths = array!(places, areas, vec![0f64; n]);
    let mut score = array!(places, areas, vec![0f32; n]);
    let mut depends = array!(places, areas, vec![0f32; n]);
    let mut queue = array!(places, areas, vec![0u32; n]);
    let mut follows = array!(places, areas, vec![0u64; targets.items.len() / 64 + 1]);
    let data = Process::new("twin").data().0;
    let word = |at, size| Word { at, size, places: &places };
    let [queue_is, row_is, near_is, depth_is, follows_is, paths_is] =
        [0, 8, 16, 24, 32, 40].map(|offset| word(data + offset, 3));
    let current_is = word(data + 48, 2);
    let sum_is = word(Process::new("twin").stack_top().0 - 64, 3);
    let clear = |at: u64, bytes: usize| {
        let words = (0..bytes.div_ceil(8) as u64).map(|word| (Kind::Store, at + 8 * word, 3));
        places.borrow_mut().extend(words);
    };
    clear(score.at, n * 4);
    let (mut depths, mut expected) = (Vec::new(), vec![0f64; n]);
    for _ in 0..searches {
        clear(depth.at, n * 4);
        clear(paths.at, n * 8);
        clear(depends.at, n * 4);
        clear(follows.at, follows.items.len() * 8);
        depth.items.fill(-1);
        paths.items.fill(0.0);
        depends.items.fill(0.0);
        follows.items.fill(0);
        let source = (ours[places.borrow().len() + 1].1 - depth.at) / 4;
        depth_is.load();
        depth.set(source, 0);
        paths_is.load();
        paths.set(source, 1.0);
        queue_is.load();
        queue.set(0, source as u32);
        let (mut levels, mut tail, mut current) = (vec![0, 1], 1, 0);
        while levels[current + 1] > levels[current] {
            for i in levels[current]..levels[current + 1] {
                queue_is.load();
                let u = u64::from(queue.get(i));
                let mut k = offsets.get(u);
                let mut end = offsets.get(u + 1);
                while k < end {
                    near_is.load();
                    depth_is.load();
                    let v = u64::from(targets.get(k));
                    let mut old = depth.get(v);
                    let next = current as i32 + 1;
                    if old == -1 {
                        depth.get(v);
                        depth.set(v, next);
                        queue_is.load();
                        queue.set(tail, v as u32);
                        tail += 1;
                        current_is.load();
                        old = next;
                    }
                    if old == next {
                        follows_is.load();
                        let bits = follows.get(k / 64);
                        follows.set(k / 64, bits | 1 << (k % 64));
                        paths_is.load();
                        let more = paths.get(u);
                        let sum = paths.get(v) + more;
                        sum_is.store();
                        sum_is.load();
                        paths.get(v);
                        paths.set(v, sum);
                        current_is.load();
                    }
                    k += 1;
                    row_is.load();
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
                    if follows.get(k / 64) >> (k % 64) & 1 != 0 {
                        let v = u64::from(targets.get(k));
                        let share = paths.get(u);
                        let behind = 1.0 + depends.get(v);
                        sum = (f64::from(sum) + share / paths.get(v) * f64::from(behind)) as f32;
                    }
                }
                depends.set(u, sum);
                let all = score.get(u) + sum;
                score.set(u, all);
            }
        }
        depths.push(current);
        let far = brandes(&offsets.items, &targets.items, source as usize, &mut expected);
        assert!(far == depth.items, "{spec}: depths");
    }
    let most = expected.iter().fold(0.0, |a: f64, b| a.max(*b));
    let near = |(a, b): (&f32, &f64)| (f64::from(*a) - b).abs() < 1e-4 * most;
    assert!(most > 0.0 && score.items.iter().zip(&expected).all(near), "{spec}: scores");
    (places.into_inner(), depths)
}

/// The centrality by definition, with a queue and without levels, added to `score`. Returns how far everybody is.
fn brandes(offsets: &[u64], targets: &[u32], source: usize, score: &mut [f64]) -> Vec<i32> {
    let n = score.len();
    let near = |v: usize| targets[offsets[v] as usize..offsets[v + 1] as usize].iter().map(|&w| w as usize);
    let (mut far, mut paths, mut depends) = (vec![-1; n], vec![0f64; n], vec![0f64; n]);
    let mut queue = vec![source];
    (far[source], paths[source]) = (0, 1.0);
    let mut head = 0;
    while let Some(&u) = queue.get(head) {
        head += 1;
        for v in near(u) {
            if far[v] < 0 {
                far[v] = far[u] + 1;
                queue.push(v);
            }
            if far[v] == far[u] + 1 {
                paths[v] += paths[u];
            }
        }
    }
    for &w in queue.iter().rev() {
        for v in near(w).filter(|&v| far[v] == far[w] - 1) {
            depends[v] += paths[v] / paths[w] * (1.0 + depends[w]);
        }
        score[w] += depends[w];
    }
    far
}

#[test]
fn bc_refers_to_what_centrality_in_memory_does() {
    let mut most = 0;
    for (spec, searches) in [
        ("bc:bytes=8K,degree=4", 1),
        ("bc:bytes=40K,degree=4,searches=4,seed=2", 4),
        ("bc:bytes=3M,degree=4,searches=2,seed=3", 2),
        ("bc:bytes=300K,degree=6,searches=3,seed=5", 3),
        ("bc:bytes=1M,seed=9", 1),
        ("bc:bytes=6M,searches=2", 2),
    ] {
        let ours = places(spec);
        let (theirs, depths) = centrality(spec, searches, &ours);
        same(&ours, &theirs, spec);
        most = most.max(depths.into_iter().max().unwrap());
    }
    assert!(most > 8, "{most} levels are few, so that few of them are found anew from others that are");
}

#[test]
fn bc_announces_where_it_searches_and_turns_back() {
    let source = generator("bc:bytes=100K,searches=2,degree=8", 1000).unwrap();
    let (mut at, mut names) = (Vec::new(), Vec::new());
    for (before, event) in events(source) {
        if let Event::Phase(name) = event {
            at.push(before);
            names.push(name);
        }
    }
    assert_eq!(names, ["init", "search", "back", "search", "back"]);
    // A search is emptying, and for each edge seven places and more; of the way back, up to five.
    assert!(at.is_sorted() && at[0] == 0 && at[2] - at[1] > at[3] - at[2]);
}
