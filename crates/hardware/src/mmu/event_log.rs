//! The event log: every miss of a software-managed TLB, and every entry that is entered or removed.
//!
//! Only the last level counts, because the miss handler is behind it. A micro-TLB in front holds copies of its entries.

use crate::tlb::{Context, Filled, PageSizes, TlbObserver, Tlbs};
use reach_core::{Asid, Kind, Pte, TlbEvent, Vpn};

/// Events since they were last taken.
#[derive(Clone, Debug)]
pub(super) struct EventLog {
    events: Vec<TlbEvent>,
    /// By array: whether it is in the last level.
    last_level: Vec<bool>,
    /// By number of context: its address space.
    owners: Vec<Asid>,
}

impl EventLog {
    pub fn new(tlbs: &Tlbs) -> EventLog {
        EventLog { events: Vec::new(), last_level: tlbs.in_last_level(), owners: Vec::new() }
    }

    /// Moves the events, oldest first, to `events`, which is emptied before.
    pub fn take(&mut self, events: &mut Vec<TlbEvent>) {
        events.clear();
        std::mem::swap(&mut self.events, events);
    }

    fn owner(&self, context: Context) -> Option<Asid> {
        self.owners.get(context.number()).copied()
    }
}

impl TlbObserver for EventLog {
    fn walked(&mut self, asid: Asid, kind: Kind, vpn: Vpn, pte: Pte) {
        self.events.push(TlbEvent::Miss { asid, vpn, kind, shift: pte.shift() });
    }

    fn filled(&mut self, _: Kind, sizes: &PageSizes, filled: Filled) {
        if !self.last_level[filled.array] {
            return;
        }
        let page = |tag| {
            let (context, vpn, shift) = sizes.page_of(tag)?;
            Some((self.owner(context)?, vpn, shift))
        };
        let (evicted, inserted) = (filled.evicted.and_then(page), page(filled.tag));
        if let Some((asid, vpn, shift)) = evicted {
            self.events.push(TlbEvent::Removed { asid, vpn, shift, evicted: true });
        }
        if let Some((asid, vpn, shift)) = inserted {
            self.events.push(TlbEvent::Inserted { asid, vpn, shift });
        }
    }

    fn before_invalidate(&mut self, tlbs: &Tlbs, context: Context, vpn: Vpn, pages: u64) {
        let Some(asid) = self.owner(context) else { return };
        let end = vpn.0.saturating_add(pages);
        for (array, first, pte) in tlbs.translations(context) {
            let shift = pte.shift();
            if self.last_level[array] && first.0 < end && first.0 + shift.base_pages(tlbs.sizes.base) > vpn.0 {
                self.events.push(TlbEvent::Removed { asid, vpn: first, shift, evicted: false });
            }
        }
    }

    fn assigned(&mut self, context: Context, asid: Asid) {
        let number = context.number();
        if self.owners.len() <= number {
            self.owners.resize(number + 1, asid);
        }
        self.owners[number] = asid;
    }
}
