//! Telling the operating system what becomes of the entries of a TLB, where its miss handler keeps account of them.
//!
//! Only what stands last in the path of a reference counts: behind it there is the handler. A micro-TLB in front holds
//! copies.

use crate::mmu::Mmu;
use crate::tlb::{Context, Tlbs};
use reach_core::{Asid, Kind, PageTable, Pte, Slot, StopReason, TlbEvent, TlbPreload, Vpn};

/// What is to be told, and what is needed to tell it.
#[derive(Clone, Debug)]
pub(crate) struct Telling {
    events: Vec<TlbEvent>,
    /// Per array, whether the handler stands behind it.
    last: Vec<bool>,
    /// Whose each context is.
    owners: Vec<Asid>,
}

impl Telling {
    /// `context` is `asid`'s from now on.
    pub fn owns(&mut self, context: Context, asid: Asid) {
        let number = context.number();
        if self.owners.len() <= number {
            self.owners.resize(number + 1, asid);
        }
        self.owners[number] = asid;
    }

    /// What of `[vpn, vpn + pages)` will be invalidated.
    pub fn leaving(&mut self, tlbs: &Tlbs, context: Context, vpn: Vpn, pages: u64) {
        let Some(&asid) = self.owners.get(context.number()) else { return };
        let end = vpn.0.saturating_add(pages);
        for (array, first, pte) in tlbs.translations(context) {
            let shift = pte.shift();
            let base_pages = shift.base_pages(tlbs.base());
            if self.last[array] && first.0 < end && first.0 + base_pages > vpn.0 {
                self.events.push(TlbEvent::Removed { asid, vpn: first, shift, evicted: false });
            }
        }
    }

    fn fill(&mut self, tlbs: &mut Tlbs, kind: Kind, context: Context, vpn: Vpn, pte: Pte) {
        let depth = tlbs.depth(kind);
        // At most one array of each level is filled.
        let mut changes = [None; 4];
        let mut count = 0;
        tlbs.fill_watched(kind, context, vpn, pte, depth, |array, tag, gone| {
            if self.last[array] && count < changes.len() {
                changes[count] = Some((tag, gone));
                count += 1;
            }
        });
        for (tag, gone) in changes.into_iter().flatten() {
            let whose = |context: usize| self.owners.get(context).copied();
            if let Some((context, vpn, shift)) = gone.and_then(|tag| tlbs.page_of(tag))
                && let Some(asid) = whose(context)
            {
                self.events.push(TlbEvent::Removed { asid, vpn, shift, evicted: true });
            }
            if let Some((context, vpn, shift)) = tlbs.page_of(tag)
                && let Some(asid) = whose(context)
            {
                self.events.push(TlbEvent::Inserted { asid, vpn, shift });
            }
        }
    }
}

impl Mmu {
    /// From now on every miss stops the run with [`StopReason::PolicyCallback`] once it is handled, and [`Mmu::told`] says what
    /// happened. Call it before the first reference.
    pub fn tell(&mut self) {
        let mut telling = Telling { events: Vec::new(), last: self.tlbs.last(), owners: Vec::new() };
        telling.owns(self.context, self.asid);
        self.telling = Some(Box::new(telling));
    }

    /// What has happened since the last call, in order. `told` is emptied first.
    pub fn told(&mut self, told: &mut Vec<TlbEvent>) {
        told.clear();
        if let Some(telling) = &mut self.telling {
            std::mem::swap(&mut telling.events, told);
        }
    }

    /// Enters what the handler found, where that is to be told.
    #[inline(never)]
    pub(crate) fn fill_and_tell(&mut self, kind: Kind, vpn: Vpn, pte: Pte) -> Result<Pte, StopReason> {
        let Some(telling) = &mut self.telling else { return Ok(pte) };
        telling.events.push(TlbEvent::Miss { asid: self.asid, vpn, kind, shift: pte.shift() });
        telling.fill(&mut self.tlbs, kind, self.context, vpn, pte);
        Err(StopReason::PolicyCallback)
    }

    /// The operating system enters a translation of `table`, that of the current address space.
    pub fn enter(&mut self, preload: TlbPreload, table: &PageTable) {
        let TlbPreload { vpn, kind } = preload;
        let Some((node, index)) = table.find(vpn) else { return };
        let Slot::Leaf(pte) = table.slot(node, index) else { return };
        let mut latency = 0;
        // What is there already is not entered twice.
        let absent = self.tlbs.lookup(kind, self.context, vpn, &mut latency).is_none();
        if let Some(telling) = self.telling.as_mut().filter(|_| absent && pte.accessed()) {
            // What a side is on need no longer be what was used last.
            self.shot = true;
            telling.fill(&mut self.tlbs, kind, self.context, vpn, pte);
        }
    }
}
