//! Invariants of reservations and population maps.

use super::Reservations;
use super::map::NIL;
use crate::ObjectId;
use reach_core::Pfn;
use std::collections::BTreeMap;

/// The frames that reservations and population maps know.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// Frames of populated pages, each with the object and the place of its page.
    pub(crate) populated: BTreeMap<u64, (ObjectId, u64)>,
    /// Frames that are reserved and vacant.
    pub(crate) vacant: Vec<u64>,
}

impl Reservations {
    /// Checks the invariants and lists the frames. Takes time linear in the populated pages; for tests.
    ///
    /// # Panics
    /// When counts are wrong, a reservation is not on exactly the list of the largest extent that preempting it would free, a
    /// full one is on a list, a frame is in two places, or pointers do not match.
    pub(crate) fn check(&self) -> Account {
        let mut account = Account::default();
        let mut reserved = 0;
        let nodes = self.maps.all();
        for &(object, place, id) in &nodes {
            let node = self.maps.node(id);
            assert!(node.some > 0, "an empty node exists: {node:?}");
            self.check_counts(id);
            if node.level == 1 {
                for (slot, &frame) in node.below.iter().enumerate().filter(|&(_, &frame)| frame != NIL) {
                    let page = (object, place + slot as u64);
                    assert_eq!(account.populated.insert(frame as u64, page), None, "frame {frame:#x} is in two places");
                }
            }
            if node.reservation != NIL {
                reserved += 1;
                let reservation = self.get(node.reservation);
                let expected = (object, place, id, node.level);
                let found = (reservation.object, reservation.place, reservation.node, reservation.level);
                assert_eq!(found, expected, "a reservation and its node");
                let above = self.maps.reservation_over(node.parent);
                assert_eq!(above, None, "a reservation in a reservation");
                assert_eq!(reservation.list, self.naive_vacancy(id), "the list of {reservation:?}");
                assert!(
                    reservation.pfn.0.is_multiple_of(self.ladder().pages(node.level)),
                    "{reservation:?} is not aligned"
                );
            }
        }
        assert_eq!(reserved, self.starts.len(), "reservations without a node");
        assert_eq!(reserved, self.all.iter().flatten().count());
        for (list, members) in self.lists.iter().enumerate() {
            for (stamp, start) in members {
                let reservation = self.get(self.starts[start]);
                assert_eq!((reservation.list, reservation.stamp), (Some(list as u8), *stamp), "list {list}");
            }
        }
        let on_lists: usize = self.lists.iter().map(|list| list.len()).sum();
        assert_eq!(on_lists, self.all.iter().flatten().filter(|r| r.list.is_some()).count(), "on a second list");
        let mut end = 0;
        for (&start, &id) in &self.starts {
            let reservation = self.get(id);
            assert!(start >= end && start == reservation.pfn.0, "reservations overlap at {start:#x}");
            end = start + self.ladder().pages(reservation.level);
            for at in start..end {
                let page = (reservation.object, reservation.place + (at - start));
                match self.maps.frame(page.0, page.1) {
                    Some(frame) => assert_eq!(frame, Pfn(at), "a page outside its reservation"),
                    None => account.vacant.push(at),
                }
            }
        }
        assert_eq!(account.vacant.len() as u64, self.held, "reserved and vacant frames");
        account
    }

    /// Checks the counts of one node against its children.
    fn check_counts(&self, id: u32) {
        let node = self.maps.node(id);
        let (mut some, mut full) = (0, 0);
        for (slot, &below) in node.below.iter().enumerate().filter(|&(_, &below)| below != NIL) {
            some += 1;
            if node.level == 1 {
                full += 1;
            } else {
                let child = self.maps.node(below);
                assert_eq!((child.parent, child.slot, child.level), (id, slot as u32, node.level - 1));
                full += u32::from(child.full == self.ladder().fan(child.level));
            }
        }
        assert_eq!((node.some, node.full), (some, full), "counts of {node:?}");
        assert_eq!(node.vacant, self.naive_vacancy(id), "{node:?}");
    }

    /// Returns the level of the largest empty extents below `id`, by looking at all of them.
    fn naive_vacancy(&self, id: u32) -> Option<u8> {
        let node = self.maps.node(id);
        let of = |&below: &u32| match below {
            NIL => Some(node.level - 1),
            _ if node.level == 1 => None,
            child => self.naive_vacancy(child),
        };
        node.below.iter().filter_map(of).max()
    }
}
