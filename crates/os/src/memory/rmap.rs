//! The reverse map: the translations that point to each frame.

use super::chunked::Chunked;
use reach_core::{Asid, Vpn};
use std::collections::BTreeMap;

/// Translations by frame. Most frames have at most one, which is kept in the array.
pub(crate) struct ReverseMap {
    first: Chunked<Option<(Asid, Vpn)>>,
    others: BTreeMap<u64, Vec<(Asid, Vpn)>>,
}

impl ReverseMap {
    /// Returns a map without translations for `frames` frames.
    pub(crate) fn new(frames: u64) -> ReverseMap {
        ReverseMap { first: Chunked::new(frames), others: BTreeMap::new() }
    }

    /// Adds the translation of page `vpn` to `frame`.
    pub(crate) fn add(&mut self, frame: u64, asid: Asid, vpn: Vpn) {
        if self.first.get(frame).is_none() {
            self.first.set(frame, Some((asid, vpn)));
        } else {
            self.others.entry(frame).or_default().push((asid, vpn));
        }
    }

    /// Removes the translation of page `vpn` to `frame`.
    pub(crate) fn remove(&mut self, frame: u64, asid: Asid, vpn: Vpn) {
        let others = self.others.get_mut(&frame);
        if self.first.get(frame) == Some((asid, vpn)) {
            self.first.set(frame, others.and_then(Vec::pop));
        } else if let Some(others) = others {
            others.retain(|&other| other != (asid, vpn));
        }
        if self.others.get(&frame).is_some_and(Vec::is_empty) {
            self.others.remove(&frame);
        }
    }

    /// Returns all translations to `frame`.
    pub(crate) fn of(&self, frame: u64) -> Vec<(Asid, Vpn)> {
        let others = self.others.get(&frame).into_iter().flatten().copied();
        self.first.get(frame).into_iter().chain(others).collect()
    }
}
