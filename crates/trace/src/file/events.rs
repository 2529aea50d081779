//! Events as bytes: the distance in references from the previous event, a tag, and the event's fields.

use super::Bad;
use super::bytes::{Cursor, put_signed, put_text, put_varint};
use reach_core::{Advice, Asid, Backing, Event, FileId, Map, Protection, Remap, Role, Span, ThreadId, VirtAddr};

const ADVICE: [Advice; 9] = [
    Advice::Huge,
    Advice::NoHuge,
    Advice::DontNeed,
    Advice::Free,
    Advice::PopulateRead,
    Advice::PopulateWrite,
    Advice::Collapse,
    Advice::DontFork,
    Advice::WillNeed,
];
const ROLES: [Role; 4] = [Role::Mmap, Role::Heap, Role::Stack, Role::Image];

const SHARED: u8 = 1;
const POPULATE: u8 = 2;
const NO_RESERVE: u8 = 4;
const FILE: u8 = 8;

/// Writes events, of which each knows the last address: mappings cluster.
#[derive(Default)]
pub(super) struct EventEncoder {
    pub bytes: Vec<u8>,
    pub count: u32,
    last_at: u32,
    last_addr: u64,
}

impl EventEncoder {
    /// Appends `event`, which stands before the segment's reference number `at`, not less than the last one's.
    pub fn put(&mut self, at: u32, event: &Event) {
        put_varint(&mut self.bytes, (at - self.last_at) as u64);
        self.last_at = at;
        self.count += 1;
        match event {
            Event::File { file, path, len } => {
                self.bytes.push(0);
                put_varint(&mut self.bytes, file.0 as u64);
                put_varint(&mut self.bytes, *len);
                put_text(&mut self.bytes, path);
            }
            Event::Map(map) => {
                self.bytes.push(1);
                self.span(map.span);
                self.bytes.push(protection_bits(map.protection));
                let mut flags = 0;
                for (on, bit) in [
                    (map.shared, SHARED),
                    (map.populate, POPULATE),
                    (map.no_reserve, NO_RESERVE),
                    (map.backing != Backing::Anonymous, FILE),
                ] {
                    flags |= if on { bit } else { 0 };
                }
                self.bytes.extend([flags, position(&ROLES, map.role), map.huge_shift]);
                if let Backing::File { file, offset } = map.backing {
                    put_varint(&mut self.bytes, file.0 as u64);
                    put_varint(&mut self.bytes, offset);
                }
            }
            Event::Unmap(span) => {
                self.bytes.push(2);
                self.span(*span);
            }
            Event::Protect(span, protection) => {
                self.bytes.push(3);
                self.span(*span);
                self.bytes.push(protection_bits(*protection));
            }
            Event::Remap(remap) => {
                self.bytes.push(4);
                self.span(remap.from);
                self.span(remap.to);
                self.bytes.push(remap.keep as u8);
            }
            Event::Advise(span, advice) => {
                self.bytes.push(5);
                self.span(*span);
                self.bytes.push(position(&ADVICE, *advice));
            }
            Event::Fork { child, shares_memory } => {
                self.bytes.push(if *shares_memory { 11 } else { 6 });
                put_varint(&mut self.bytes, child.0 as u64);
            }
            Event::Exec { path } => {
                self.bytes.push(7);
                put_text(&mut self.bytes, path);
            }
            Event::Exit => self.bytes.push(8),
            Event::Switch { asid, thread } => {
                self.bytes.push(9);
                put_varint(&mut self.bytes, asid.0 as u64);
                put_varint(&mut self.bytes, thread.0 as u64);
            }
            Event::Phase(name) => {
                self.bytes.push(10);
                put_text(&mut self.bytes, name);
            }
        }
    }

    fn span(&mut self, span: Span) {
        put_signed(&mut self.bytes, span.start.0.wrapping_sub(self.last_addr) as i64);
        put_varint(&mut self.bytes, span.len);
        self.last_addr = span.start.0;
    }
}

/// All `count` events of a segment of `refs` references.
pub(super) fn decode(bytes: &[u8], count: u32, refs: u32) -> Result<Vec<(u32, Event)>, Bad> {
    let mut reader = EventDecoder { cursor: Cursor(bytes), last_addr: 0 };
    let mut events = Vec::with_capacity((count as usize).min(bytes.len()));
    let mut at = 0u32;
    for _ in 0..count {
        at = at
            .checked_add(reader.cursor.narrow()?)
            .filter(|&at| at <= refs)
            .ok_or(Bad("an event beyond its segment"))?;
        events.push((at, reader.event()?));
    }
    if !reader.cursor.is_empty() {
        return Err(Bad("more events than announced"));
    }
    Ok(events)
}

struct EventDecoder<'a> {
    cursor: Cursor<'a>,
    last_addr: u64,
}

impl EventDecoder<'_> {
    fn event(&mut self) -> Result<Event, Bad> {
        Ok(match self.cursor.u8()? {
            0 => {
                let file = FileId(self.cursor.narrow()?);
                let len = self.cursor.varint()?;
                Event::File { file, path: self.cursor.text()?, len }
            }
            1 => {
                let span = self.span()?;
                let protection = self.protection()?;
                let flags = self.cursor.u8()?;
                if flags > (SHARED | POPULATE | NO_RESERVE | FILE) {
                    return Err(Bad("a mapping with unknown flags"));
                }
                let role = self.one_of(&ROLES)?;
                let huge_shift = self.cursor.u8()?;
                let backing = if flags & FILE == 0 {
                    Backing::Anonymous
                } else {
                    Backing::File { file: FileId(self.cursor.narrow()?), offset: self.cursor.varint()? }
                };
                Event::Map(Map {
                    span,
                    protection,
                    backing,
                    shared: flags & SHARED != 0,
                    role,
                    populate: flags & POPULATE != 0,
                    no_reserve: flags & NO_RESERVE != 0,
                    huge_shift,
                })
            }
            2 => Event::Unmap(self.span()?),
            3 => Event::Protect(self.span()?, self.protection()?),
            4 => Event::Remap(Remap { from: self.span()?, to: self.span()?, keep: self.one_of(&[false, true])? }),
            5 => Event::Advise(self.span()?, self.one_of(&ADVICE)?),
            kind @ (6 | 11) => Event::Fork { child: Asid(self.cursor.narrow()?), shares_memory: kind == 11 },
            7 => Event::Exec { path: self.cursor.text()? },
            8 => Event::Exit,
            9 => Event::Switch { asid: Asid(self.cursor.narrow()?), thread: ThreadId(self.cursor.narrow()?) },
            10 => Event::Phase(self.cursor.text()?),
            _ => return Err(Bad("an event of an unknown kind")),
        })
    }

    fn span(&mut self) -> Result<Span, Bad> {
        self.last_addr = self.last_addr.wrapping_add(self.cursor.signed()? as u64);
        let len = self.cursor.varint()?;
        // `Span::end` must not overflow.
        self.last_addr.checked_add(len).ok_or(Bad("a span beyond the address space"))?;
        Ok(Span { start: VirtAddr(self.last_addr), len })
    }

    fn protection(&mut self) -> Result<Protection, Bad> {
        let bits = self.cursor.u8()?;
        if bits > 7 {
            return Err(Bad("unknown access rights"));
        }
        Ok(Protection { read: bits & 1 != 0, write: bits & 2 != 0, execute: bits & 4 != 0 })
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Result<T, Bad> {
        all.get(self.cursor.u8()? as usize).copied().ok_or(Bad("an event with an unknown value"))
    }
}

fn protection_bits(p: Protection) -> u8 {
    p.read as u8 | (p.write as u8) << 1 | (p.execute as u8) << 2
}

fn position<T: PartialEq>(all: &[T], one: T) -> u8 {
    all.iter().position(|x| *x == one).expect("the list holds every value") as u8
}
