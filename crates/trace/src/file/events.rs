//! Events as bytes: the distance in references from the previous event, a tag, and the event's fields.

use super::bytes::{Cursor, put_signed, put_text, put_varint};
use super::error::Damage;
use super::version::Version;
use reach_core::{Advice, Asid, Backing, Event, FileId, Map, Mark, Protection, Remap, Role, Span, ThreadId, VirtAddr};

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

/// The tag that begins an event.
mod tag {
    pub const FILE: u8 = 0;
    pub const MAP: u8 = 1;
    pub const UNMAP: u8 = 2;
    pub const PROTECT: u8 = 3;
    pub const REMAP: u8 = 4;
    pub const ADVISE: u8 = 5;
    pub const FORK: u8 = 6;
    pub const EXEC: u8 = 7;
    pub const EXIT: u8 = 8;
    pub const SWITCH: u8 = 9;
    pub const PHASE: u8 = 10;
    pub const VFORK: u8 = 11;
    pub const MARK: u8 = 12;
    /// A file in memory. Files on disks keep the tag that they had before there were others.
    pub const MEMORY_FILE: u8 = 13;
    pub const SYSTEM_CALL: u8 = 14;
}

/// The flags of a mapping.
mod map_flag {
    pub const SHARED: u8 = 1;
    pub const POPULATE: u8 = 2;
    pub const NO_RESERVE: u8 = 4;
    pub const FILE: u8 = 8;
    pub const ALL: u8 = SHARED | POPULATE | NO_RESERVE | FILE;
}

/// The kind of a mark.
mod mark_kind {
    pub const FAST_FORWARD: u8 = 0;
    pub const MEASURE: u8 = 1;
    pub const SAMPLE: u8 = 2;
    pub const INTERVAL_BEGIN: u8 = 3;
    pub const INTERVAL_END: u8 = 4;
    pub const WARM_TLBS: u8 = 5;
    pub const WARM_CACHES: u8 = 6;
    pub const DETAILED: u8 = 7;
    pub const FIRST_RUN_BEGIN: u8 = 8;
    pub const FIRST_RUN_UNMEASURED: u8 = 9;
    pub const GUEST: u8 = 10;
}

/// Writes events. Each span is relative to the previous one, because mappings cluster.
#[derive(Default)]
pub(super) struct EventEncoder {
    pub bytes: Vec<u8>,
    pub count: u32,
    last_at: u32,
    last_addr: u64,
}

impl EventEncoder {
    /// Appends `event`, which precedes the segment's reference number `at`. Events must come in order of `at`.
    pub fn put(&mut self, at: u32, event: &Event) {
        put_varint(&mut self.bytes, (at - self.last_at) as u64);
        self.last_at = at;
        self.count += 1;
        match event {
            Event::File { file, path, len, in_memory } => {
                self.bytes.push(if *in_memory { tag::MEMORY_FILE } else { tag::FILE });
                put_varint(&mut self.bytes, file.0 as u64);
                put_varint(&mut self.bytes, *len);
                put_text(&mut self.bytes, path);
            }
            Event::Map(map) => self.put_map(map),
            Event::Unmap(span) => {
                self.bytes.push(tag::UNMAP);
                self.put_span(*span);
            }
            Event::Protect(span, protection) => {
                self.bytes.push(tag::PROTECT);
                self.put_span(*span);
                self.bytes.push(protection_bits(*protection));
            }
            Event::Remap(remap) => {
                self.bytes.push(tag::REMAP);
                self.put_span(remap.from);
                self.put_span(remap.to);
                self.bytes.push(remap.keep as u8);
            }
            Event::Advise(span, advice) => {
                self.bytes.push(tag::ADVISE);
                self.put_span(*span);
                self.bytes.push(position(&ADVICE, *advice));
            }
            Event::Fork { child, shares_memory } => {
                self.bytes.push(if *shares_memory { tag::VFORK } else { tag::FORK });
                put_varint(&mut self.bytes, child.0 as u64);
            }
            Event::Exec { path } => {
                self.bytes.push(tag::EXEC);
                put_text(&mut self.bytes, path);
            }
            Event::Exit => self.bytes.push(tag::EXIT),
            Event::Switch { asid, thread } => {
                self.bytes.push(tag::SWITCH);
                put_varint(&mut self.bytes, asid.0 as u64);
                put_varint(&mut self.bytes, thread.0 as u64);
            }
            Event::Phase(name) => {
                self.bytes.push(tag::PHASE);
                put_text(&mut self.bytes, name);
            }
            Event::Mark(mark) => self.put_mark(*mark),
            Event::SystemCall(number) => {
                self.bytes.push(tag::SYSTEM_CALL);
                put_varint(&mut self.bytes, u64::from(*number));
            }
        }
    }

    fn put_map(&mut self, map: &Map) {
        self.bytes.push(tag::MAP);
        self.put_span(map.span);
        self.bytes.push(protection_bits(map.protection));
        let flags = [
            (map.shared, map_flag::SHARED),
            (map.populate, map_flag::POPULATE),
            (map.no_reserve, map_flag::NO_RESERVE),
            (map.backing != Backing::Anonymous, map_flag::FILE),
        ];
        let flags = flags.into_iter().filter(|(on, _)| *on).fold(0, |flags, (_, flag)| flags | flag);
        self.bytes.extend([flags, position(&ROLES, map.role), map.huge_shift]);
        if let Backing::File { file, offset } = map.backing {
            put_varint(&mut self.bytes, file.0 as u64);
            put_varint(&mut self.bytes, offset);
        }
    }

    fn put_mark(&mut self, mark: Mark) {
        let kind = match mark {
            Mark::FastForward => mark_kind::FAST_FORWARD,
            Mark::Measure => mark_kind::MEASURE,
            Mark::Sample { .. } => mark_kind::SAMPLE,
            Mark::IntervalBegin => mark_kind::INTERVAL_BEGIN,
            Mark::FirstRunBegin => mark_kind::FIRST_RUN_BEGIN,
            Mark::FirstRunUnmeasured => mark_kind::FIRST_RUN_UNMEASURED,
            Mark::IntervalEnd => mark_kind::INTERVAL_END,
            Mark::WarmTlbs => mark_kind::WARM_TLBS,
            Mark::WarmCaches => mark_kind::WARM_CACHES,
            Mark::Detailed => mark_kind::DETAILED,
            Mark::Guest { .. } => mark_kind::GUEST,
        };
        self.bytes.extend([tag::MARK, kind]);
        match mark {
            Mark::Sample { every } => put_varint(&mut self.bytes, every),
            Mark::Guest { number } => put_varint(&mut self.bytes, number.into()),
            _ => {}
        }
    }

    fn put_span(&mut self, span: Span) {
        put_signed(&mut self.bytes, span.start.0.wrapping_sub(self.last_addr) as i64);
        put_varint(&mut self.bytes, span.len);
        self.last_addr = span.start.0;
    }
}

/// Reads all `count` events of a segment with `refs` references, each with the number of the reference it precedes.
pub(super) fn decode(bytes: &[u8], count: u32, refs: u32, version: Version) -> Result<Vec<(u32, Event)>, Damage> {
    let mut decoder = EventDecoder { cursor: Cursor(bytes), last_addr: 0, version };
    let mut events = Vec::with_capacity((count as usize).min(bytes.len()));
    let mut at = 0u32;
    for _ in 0..count {
        at = at
            .checked_add(decoder.cursor.narrow()?)
            .filter(|&at| at <= refs)
            .ok_or(Damage("an event beyond its segment"))?;
        events.push((at, decoder.event()?));
    }
    if !decoder.cursor.is_empty() {
        return Err(Damage("more events than announced"));
    }
    Ok(events)
}

struct EventDecoder<'a> {
    cursor: Cursor<'a>,
    last_addr: u64,
    version: Version,
}

impl EventDecoder<'_> {
    fn event(&mut self) -> Result<Event, Damage> {
        Ok(match self.cursor.u8()? {
            tag @ (tag::FILE | tag::MEMORY_FILE) => {
                let file = FileId(self.cursor.narrow()?);
                let len = self.cursor.varint()?;
                Event::File { file, path: self.cursor.text()?, len, in_memory: tag == tag::MEMORY_FILE }
            }
            tag::MAP => Event::Map(self.map()?),
            tag::UNMAP => Event::Unmap(self.span()?),
            tag::PROTECT => Event::Protect(self.span()?, self.protection()?),
            tag::REMAP => {
                Event::Remap(Remap { from: self.span()?, to: self.span()?, keep: self.one_of(&[false, true])? })
            }
            tag::ADVISE => Event::Advise(self.span()?, self.one_of(&ADVICE)?),
            tag @ (tag::FORK | tag::VFORK) => {
                Event::Fork { child: Asid(self.cursor.narrow()?), shares_memory: tag == tag::VFORK }
            }
            tag::EXEC => Event::Exec { path: self.cursor.text()? },
            tag::EXIT => Event::Exit,
            tag::SWITCH => Event::Switch { asid: Asid(self.cursor.narrow()?), thread: ThreadId(self.cursor.narrow()?) },
            tag::PHASE => self.phase()?,
            tag::MARK if self.version != Version::V2 => Event::Mark(self.mark()?),
            tag::SYSTEM_CALL if self.version >= Version::V5 => Event::SystemCall(self.cursor.narrow()?),
            _ => return Err(Damage("an event of an unknown kind")),
        })
    }

    fn map(&mut self) -> Result<Map, Damage> {
        let span = self.span()?;
        let protection = self.protection()?;
        let flags = self.cursor.u8()?;
        if flags & !map_flag::ALL != 0 {
            return Err(Damage("a mapping with unknown flags"));
        }
        let role = self.one_of(&ROLES)?;
        let huge_shift = self.cursor.u8()?;
        let backing = if flags & map_flag::FILE == 0 {
            Backing::Anonymous
        } else {
            Backing::File { file: FileId(self.cursor.narrow()?), offset: self.cursor.varint()? }
        };
        Ok(Map {
            span,
            protection,
            backing,
            shared: flags & map_flag::SHARED != 0,
            role,
            populate: flags & map_flag::POPULATE != 0,
            no_reserve: flags & map_flag::NO_RESERVE != 0,
            huge_shift,
        })
    }

    fn phase(&mut self) -> Result<Event, Damage> {
        let name = self.cursor.text()?;
        Ok(match self.version {
            Version::V2 => mark_of_phase(&name).map_or(Event::Phase(name), Event::Mark),
            _ => Event::Phase(name),
        })
    }

    fn mark(&mut self) -> Result<Mark, Damage> {
        Ok(match self.cursor.u8()? {
            mark_kind::FAST_FORWARD => Mark::FastForward,
            mark_kind::MEASURE => Mark::Measure,
            mark_kind::SAMPLE => Mark::Sample { every: self.cursor.varint()? },
            mark_kind::INTERVAL_BEGIN => Mark::IntervalBegin,
            mark_kind::FIRST_RUN_BEGIN => Mark::FirstRunBegin,
            mark_kind::FIRST_RUN_UNMEASURED => Mark::FirstRunUnmeasured,
            mark_kind::INTERVAL_END => Mark::IntervalEnd,
            mark_kind::WARM_TLBS => Mark::WarmTlbs,
            mark_kind::WARM_CACHES => Mark::WarmCaches,
            mark_kind::DETAILED => Mark::Detailed,
            mark_kind::GUEST => Mark::Guest { number: self.cursor.narrow()? },
            _ => return Err(Damage("a mark of an unknown kind")),
        })
    }

    fn span(&mut self) -> Result<Span, Damage> {
        self.last_addr = self.last_addr.wrapping_add(self.cursor.signed()? as u64);
        let len = self.cursor.varint()?;
        // `Span::end` must not overflow.
        self.last_addr.checked_add(len).ok_or(Damage("a span beyond the address space"))?;
        Ok(Span { start: VirtAddr(self.last_addr), len })
    }

    fn protection(&mut self) -> Result<Protection, Damage> {
        let bits = self.cursor.u8()?;
        if bits > 7 {
            return Err(Damage("unknown access rights"));
        }
        Ok(Protection { read: bits & 1 != 0, write: bits & 2 != 0, execute: bits & 4 != 0 })
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> Result<T, Damage> {
        values.get(self.cursor.u8()? as usize).copied().ok_or(Damage("an event with an unknown value"))
    }
}

/// Returns the mark that a phase of this name meant in version 2; `None` for a phase of the program.
fn mark_of_phase(name: &str) -> Option<Mark> {
    Some(match name {
        "skimmed" => Mark::FastForward,
        "measured" => Mark::Measure,
        "interval" => Mark::IntervalBegin,
        "interval ends" => Mark::IntervalEnd,
        "followed" => Mark::WarmTlbs,
        "followed in caches" => Mark::WarmCaches,
        "simulated" => Mark::Detailed,
        _ => Mark::Sample { every: name.strip_prefix("sampled every ")?.parse().ok()? },
    })
}

fn protection_bits(p: Protection) -> u8 {
    p.read as u8 | (p.write as u8) << 1 | (p.execute as u8) << 2
}

fn position<T: PartialEq>(values: &[T], value: T) -> u8 {
    values.iter().position(|x| *x == value).expect("the list holds every value") as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_one(event: &Event, version: Version) -> Event {
        let mut encoder = EventEncoder::default();
        encoder.put(0, event);
        decode(&encoder.bytes, 1, 0, version).unwrap().remove(0).1
    }

    #[test]
    fn reserved_phases_of_version_2_are_marks() {
        for (name, mark) in [
            ("skimmed", Mark::FastForward),
            ("measured", Mark::Measure),
            ("sampled every 5", Mark::Sample { every: 5 }),
            ("interval", Mark::IntervalBegin),
            ("interval ends", Mark::IntervalEnd),
            ("followed", Mark::WarmTlbs),
            ("followed in caches", Mark::WarmCaches),
            ("simulated", Mark::Detailed),
        ] {
            let phase = Event::Phase(name.into());
            assert_eq!(decode_one(&phase, Version::V2), Event::Mark(mark));
            assert_eq!(decode_one(&phase, Version::V3), phase);
        }
        for name in ["", "Measured", "measure", "sampled every", "sampled every few", "intervals"] {
            let phase = Event::Phase(name.into());
            assert_eq!(decode_one(&phase, Version::V2), phase);
        }
    }

    #[test]
    fn version_2_has_no_encoding_of_marks() {
        let mut encoder = EventEncoder::default();
        encoder.put(0, &Event::Mark(Mark::Measure));
        assert!(decode(&encoder.bytes, 1, 0, Version::V2).is_err());
    }
}
