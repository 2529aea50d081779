use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Ignores all accesses.
struct Ignore;

impl Memory for Ignore {
    fn site(&mut self, _: Site) {}
    fn load(&mut self, _: u64, _: Field) {}
    fn store(&mut self, _: u64, _: Field) {}
}

/// Records all loads.
#[derive(Default)]
struct Recorder(Vec<(Field, u64)>);

impl Memory for Recorder {
    fn site(&mut self, _: Site) {}
    fn load(&mut self, addr: u64, field: Field) {
        self.0.push((field, addr));
    }
    fn store(&mut self, _: u64, _: Field) {}
}

impl Tree {
    /// Checks the red-black properties, the order of keys, and parents.
    pub(in super::super) fn check(&self) {
        assert!(!self.nodes[NIL as usize].red, "the sentinel is black");
        if self.root != NIL {
            let root = self.nodes[self.root as usize];
            assert!(!root.red, "the root is black");
            assert_eq!(root.parent, NIL);
        }
        let (_, count) = self.check_below(self.root, 0, i128::from(u64::MAX));
        assert_eq!(count + self.free.len() + 1, self.nodes.len(), "nodes are in the tree or free");
    }

    /// Returns black height and number of nodes.
    fn check_below(&self, n: Node, low: i128, high: i128) -> (u32, usize) {
        if n == NIL {
            return (1, 0);
        }
        let Fields { key, left, right, red, .. } = self.nodes[n as usize];
        let key = i128::from(key);
        assert!((low..=high).contains(&key), "keys are in order");
        for child in [left, right].into_iter().filter(|&child| child != NIL) {
            assert_eq!(self.nodes[child as usize].parent, n, "a child knows its parent");
            assert!(!(red && self.nodes[child as usize].red), "a red node has black children");
        }
        let below = |n, low, high| self.check_below(n, low, high);
        let (l, r) = (below(left, low, key - 1), below(right, key + 1, high));
        assert_eq!(l.0, r.0, "equal black heights");
        (l.0 + u32::from(!red), l.1 + r.1 + 1)
    }

    fn keys(&self) -> Vec<u64> {
        let mut keys = Vec::new();
        let mut n = self.first(&mut Ignore);
        while n != NIL {
            keys.push(self.key(n, &mut Ignore));
            n = self.next(n, &mut Ignore);
        }
        keys
    }
}

proptest! {
    // Every insertion and removal also checks the tree.
    #[test]
    fn a_tree_behaves_like_an_ordered_map(operations in proptest::collection::vec((1u64..60, any::<bool>()), 0..400)) {
        let mut tree = Tree::new(0);
        let mut map = BTreeMap::new();
        for (at, (key, insert)) in operations.into_iter().enumerate() {
            let n = tree.find(key, &mut Ignore);
            prop_assert_eq!(n != NIL, map.contains_key(&key));
            let addr = at as u64 * 64;
            if n == NIL && insert {
                tree.insert(key, addr, addr + 48, &mut Ignore);
                map.insert(key, addr);
            } else if n != NIL && !insert {
                prop_assert_eq!(tree.record(n, &mut Ignore), map[&key] + 48);
                let addr = map.remove(&key).unwrap();
                prop_assert_eq!(tree.remove(n, &mut Ignore), (addr, addr + 48));
            }
            prop_assert!(tree.keys().into_iter().eq(map.keys().copied()));
        }
    }
}

#[test]
fn a_search_loads_only_the_nodes_on_its_path() {
    let mut tree = Tree::new(7);
    for key in 1..=7 {
        tree.insert(key, key * 100, 0, &mut Ignore);
    }
    // Inserting 1 to 7 in order makes 2 (1, 4 (3, 6 (5, 7))).
    let mut recorder = Recorder::default();
    let found = tree.find(5, &mut recorder);
    assert_eq!(tree.addr(found), 500);
    let keys: Vec<u64> = recorder.0.iter().filter(|(field, _)| *field == Field::Key).map(|&(_, addr)| addr).collect();
    assert_eq!(keys, [200, 400, 600, 500]);
    assert_eq!(recorder.0.len(), 4 + 3);
}
