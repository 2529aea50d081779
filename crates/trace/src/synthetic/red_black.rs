//! A red-black tree that reports every access to a field of a node to a [`Memory`].
//!
//! The algorithms are those of Cormen, Leiserson, Rivest and Stein (3rd edition, chapter 13), with one sentinel for all
//! leaves. Nodes lie in an array, and have simulated addresses for the traced program.

/// Index of a node. 0 is the sentinel.
pub(super) type Node = u32;

/// The sentinel.
pub(super) const NIL: Node = 0;

/// Bytes of a node in the traced program: five words, and the colour in a sixth.
pub(super) const NODE_BYTES: u64 = 48;

/// A field of a node. Its offset is its number times eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Key,
    Record,
    Left,
    Right,
    Parent,
    Colour,
}

/// A part of the tree's code, approximated by one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Site {
    /// Moves one level down.
    Descend,
    /// Writes the fields of a new node.
    Link,
    /// Rotates.
    Rotate,
    /// Starts one iteration of the repair after an insertion.
    InsertFixup,
    /// Ends a repair.
    Blacken,
    /// Starts the removal of a node.
    Delete,
    /// Replaces a subtree by another.
    Transplant,
    /// Replaces a node with two children by its successor.
    Splice,
    /// Starts one iteration of the repair after a deletion: finds the sibling.
    DeleteFixup,
    /// Continues it: distinguishes cases by the sibling's children.
    DeleteCase,
    /// Moves one level up in search of the successor.
    Ascend,
}

/// Receives the tree's code and accesses in order.
pub(super) trait Memory {
    /// Called when the tree executes `site`.
    fn site(&mut self, site: Site);
    /// Called when it loads `field` of the node at `addr`.
    fn load(&mut self, addr: u64, field: Field);
    /// Called when it stores `field` of the node at `addr`.
    fn store(&mut self, addr: u64, field: Field);
}

#[derive(Clone, Copy, Debug, Default)]
struct Fields {
    addr: u64,
    key: u64,
    record: u64,
    left: Node,
    right: Node,
    parent: Node,
    red: bool,
}

/// A child of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

impl Side {
    fn other(self) -> Side {
        if self == Side::Left { Side::Right } else { Side::Left }
    }
}

/// A red-black tree with unique keys.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: Vec<Fields>,
    root: Node,
    free: Vec<Node>,
}

impl Tree {
    /// Makes an empty tree. `sentinel` is the address of its sentinel.
    pub fn new(sentinel: u64) -> Tree {
        Tree { nodes: vec![Fields { addr: sentinel, ..Fields::default() }], root: NIL, free: Vec::new() }
    }

    fn addr(&self, n: Node) -> u64 {
        self.nodes[n as usize].addr
    }

    fn key(&self, n: Node, m: &mut impl Memory) -> u64 {
        m.load(self.addr(n), Field::Key);
        self.nodes[n as usize].key
    }

    fn child(&self, n: Node, side: Side, m: &mut impl Memory) -> Node {
        let Fields { addr, left, right, .. } = self.nodes[n as usize];
        let (field, child) = if side == Side::Left { (Field::Left, left) } else { (Field::Right, right) };
        m.load(addr, field);
        child
    }

    fn set_child(&mut self, n: Node, side: Side, child: Node, m: &mut impl Memory) {
        let node = &mut self.nodes[n as usize];
        let (field, place) =
            if side == Side::Left { (Field::Left, &mut node.left) } else { (Field::Right, &mut node.right) };
        *place = child;
        m.store(node.addr, field);
    }

    fn parent(&self, n: Node, m: &mut impl Memory) -> Node {
        m.load(self.addr(n), Field::Parent);
        self.nodes[n as usize].parent
    }

    fn set_parent(&mut self, n: Node, parent: Node, m: &mut impl Memory) {
        m.store(self.addr(n), Field::Parent);
        self.nodes[n as usize].parent = parent;
    }

    fn is_red(&self, n: Node, m: &mut impl Memory) -> bool {
        m.load(self.addr(n), Field::Colour);
        self.nodes[n as usize].red
    }

    fn set_red(&mut self, n: Node, red: bool, m: &mut impl Memory) {
        m.store(self.addr(n), Field::Colour);
        self.nodes[n as usize].red = red;
    }

    /// Returns the address of the record of `n`.
    pub fn record(&self, n: Node, m: &mut impl Memory) -> u64 {
        m.load(self.addr(n), Field::Record);
        self.nodes[n as usize].record
    }

    /// Returns the node with this key, or [`NIL`].
    pub fn find(&self, key: u64, m: &mut impl Memory) -> Node {
        let mut n = self.root;
        while n != NIL {
            m.site(Site::Descend);
            let own = self.key(n, m);
            if own == key {
                break;
            }
            n = self.child(n, if key < own { Side::Left } else { Side::Right }, m);
        }
        n
    }

    /// Returns the node with the smallest key in the subtree of `n`.
    fn leftmost(&self, mut n: Node, m: &mut impl Memory) -> Node {
        loop {
            m.site(Site::Descend);
            let left = self.child(n, Side::Left, m);
            if left == NIL {
                return n;
            }
            n = left;
        }
    }

    /// Returns the node with the smallest key, or [`NIL`].
    pub fn first(&self, m: &mut impl Memory) -> Node {
        if self.root == NIL { NIL } else { self.leftmost(self.root, m) }
    }

    /// Returns the node with the next larger key, or [`NIL`].
    pub fn next(&self, mut n: Node, m: &mut impl Memory) -> Node {
        m.site(Site::Descend);
        let right = self.child(n, Side::Right, m);
        if right != NIL {
            return self.leftmost(right, m);
        }
        loop {
            m.site(Site::Ascend);
            let parent = self.parent(n, m);
            if parent == NIL || self.child(parent, Side::Right, m) != n {
                return parent;
            }
            n = parent;
        }
    }

    /// Inserts a node at address `addr`. The key must be new.
    pub fn insert(&mut self, key: u64, addr: u64, record: u64, m: &mut impl Memory) {
        let (mut parent, mut n, mut side) = (NIL, self.root, Side::Left);
        while n != NIL {
            m.site(Site::Descend);
            parent = n;
            side = if key < self.key(n, m) { Side::Left } else { Side::Right };
            n = self.child(n, side, m);
        }
        let fields = Fields { addr, key, record, left: NIL, right: NIL, parent, red: true };
        let new = match self.free.pop() {
            Some(new) => new,
            None => {
                self.nodes.push(fields);
                self.nodes.len() as Node - 1
            }
        };
        self.nodes[new as usize] = fields;
        m.site(Site::Link);
        for field in [Field::Key, Field::Record, Field::Left, Field::Right, Field::Parent, Field::Colour] {
            m.store(addr, field);
        }
        if parent == NIL {
            self.root = new;
        } else {
            self.set_child(parent, side, new, m);
        }
        self.insert_fixup(new, m);
        #[cfg(test)]
        self.check();
    }

    fn insert_fixup(&mut self, mut n: Node, m: &mut impl Memory) {
        loop {
            m.site(Site::InsertFixup);
            let parent = self.parent(n, m);
            if !self.is_red(parent, m) {
                break;
            }
            let grandparent = self.parent(parent, m);
            let side = self.side(parent, grandparent, m);
            let uncle = self.child(grandparent, side.other(), m);
            if self.is_red(uncle, m) {
                self.set_red(parent, false, m);
                self.set_red(uncle, false, m);
                self.set_red(grandparent, true, m);
                n = grandparent;
                continue;
            }
            let inner = self.side(n, parent, m) != side;
            self.set_red(if inner { n } else { parent }, false, m);
            self.set_red(grandparent, true, m);
            if inner {
                self.rotate(parent, side, m);
            }
            self.rotate(grandparent, side.other(), m);
            break;
        }
        m.site(Site::Blacken);
        self.set_red(self.root, false, m);
    }

    /// Returns which child of `parent` the node `n` is.
    fn side(&self, n: Node, parent: Node, m: &mut impl Memory) -> Side {
        if self.child(parent, Side::Left, m) == n { Side::Left } else { Side::Right }
    }

    /// Rotates `n` down to `side`; its other child takes its place.
    fn rotate(&mut self, n: Node, side: Side, m: &mut impl Memory) {
        m.site(Site::Rotate);
        let up = self.child(n, side.other(), m);
        let inner = self.child(up, side, m);
        self.set_child(n, side.other(), inner, m);
        if inner != NIL {
            self.set_parent(inner, n, m);
        }
        let parent = self.parent(n, m);
        self.set_parent(up, parent, m);
        self.replace_child(parent, n, up, m);
        self.set_child(up, side, n, m);
        self.set_parent(n, up, m);
    }

    fn replace_child(&mut self, parent: Node, old: Node, new: Node, m: &mut impl Memory) {
        if parent == NIL {
            self.root = new;
        } else {
            let side = self.side(old, parent, m);
            self.set_child(parent, side, new, m);
        }
    }

    fn transplant(&mut self, old: Node, new: Node, m: &mut impl Memory) {
        m.site(Site::Transplant);
        let parent = self.parent(old, m);
        self.replace_child(parent, old, new, m);
        // The sentinel gets a parent too, because the repair starts there.
        self.set_parent(new, parent, m);
    }

    /// Removes `n`, and returns the addresses of node and record.
    pub fn remove(&mut self, n: Node, m: &mut impl Memory) -> (u64, u64) {
        m.site(Site::Delete);
        let (left, right) = (self.child(n, Side::Left, m), self.child(n, Side::Right, m));
        let mut lost_red = self.is_red(n, m);
        let hole;
        if left == NIL || right == NIL {
            hole = if left == NIL { right } else { left };
            self.transplant(n, hole, m);
        } else {
            let next = self.leftmost(right, m);
            m.site(Site::Splice);
            let red = lost_red;
            lost_red = self.is_red(next, m);
            hole = self.child(next, Side::Right, m);
            if next == right {
                self.set_parent(hole, next, m);
            } else {
                self.transplant(next, hole, m);
                m.site(Site::Splice);
                self.set_child(next, Side::Right, right, m);
                self.set_parent(right, next, m);
            }
            self.transplant(n, next, m);
            m.site(Site::Splice);
            self.set_child(next, Side::Left, left, m);
            self.set_parent(left, next, m);
            self.set_red(next, red, m);
        }
        if !lost_red {
            self.delete_fixup(hole, m);
        }
        self.free.push(n);
        let Fields { addr, record, .. } = std::mem::take(&mut self.nodes[n as usize]);
        #[cfg(test)]
        self.check();
        (addr, record)
    }

    fn delete_fixup(&mut self, mut n: Node, m: &mut impl Memory) {
        while n != self.root {
            m.site(Site::DeleteFixup);
            if self.is_red(n, m) {
                break;
            }
            let parent = self.parent(n, m);
            let side = self.side(n, parent, m);
            let mut sibling = self.child(parent, side.other(), m);
            if self.is_red(sibling, m) {
                let nephew = self.child(sibling, side, m);
                self.set_red(sibling, false, m);
                self.set_red(parent, true, m);
                self.rotate(parent, side, m);
                sibling = nephew;
            }
            m.site(Site::DeleteCase);
            let (near, far) = (self.child(sibling, side, m), self.child(sibling, side.other(), m));
            let (near_red, far_red) = (self.is_red(near, m), self.is_red(far, m));
            if !near_red && !far_red {
                self.set_red(sibling, true, m);
                n = parent;
                continue;
            }
            // The sibling or its near child rises to the parent's position and takes its colour.
            let red = self.is_red(parent, m);
            self.set_red(parent, false, m);
            if far_red {
                self.set_red(sibling, red, m);
                self.set_red(far, false, m);
            } else {
                self.set_red(near, red, m);
                self.rotate(sibling, side.other(), m);
            }
            self.rotate(parent, side, m);
            n = self.root;
        }
        m.site(Site::Blacken);
        self.set_red(n, false, m);
    }
}

#[cfg(test)]
mod tests;
