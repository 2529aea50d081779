//! `reach text show`.

use crate::args::results::Format;
use crate::args::this_linux::ShowArgs;
use crate::failure::{Done, Failure, complain};
use crate::units::{memory, plural};
use crate::{output, tabulate};
use reach_live::elf::{Elf, Kind, Segment};
use reach_live::error::LiveError;
use reach_live::image::Image;
use reach_live::layout::{self, Congruence, Fit, SUPERPAGE, Window};
use reach_live::users::{self, Mapped, User, Users};
use reach_live::{cache::Held, frames::ORDERS, libraries};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Shows all that was named. What cannot be shown is complained about, and the rest is shown.
pub fn show(args: &ShowArgs) -> Done {
    let mut status = 0;
    let mut first = true;
    let mut shown = |looked: Result<Looked, Failure>| {
        let begin = std::mem::take(&mut first);
        match looked {
            Ok(looked) => output::print(&match args.format {
                Format::Table => format!("{}{}", if begin { "" } else { "\n" }, table(&looked)),
                Format::Jsonl => rows(&looked).iter().map(|row| output::json(row) + "\n").collect(),
                Format::Csv => output::csv_after(&rows(&looked), begin),
            }),
            Err(Failure::Failed(what) | Failure::Usage(what)) => {
                complain(what);
                status = 1;
                Ok(())
            }
            Err(other) => Err(other),
        }
    };
    for what in &args.what {
        match what.to_str().and_then(|text| text.parse().ok()).filter(|_| !what.exists()) {
            Some(pid) => match users::code_of(pid) {
                Ok(mapped) => mapped.iter().try_for_each(|file| shown(process(pid, file)))?,
                Err(error) => shown(Err(Failure::Failed(no_process(pid, &error))))?,
            },
            None => {
                let image = Image::open(what);
                let more = match &image {
                    Ok(image) if args.libraries => libraries::of(image),
                    _ => Ok(Vec::new()),
                };
                shown(image.and_then(file).map_err(Failure::from))?;
                match more {
                    Ok(paths) => paths.iter().try_for_each(|path| shown(library(path)))?,
                    Err(error) => shown(Err(error.into()))?,
                }
            }
        }
    }
    Ok(status)
}

/// Why a process cannot be looked at.
pub fn no_process(pid: i32, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => format!("{pid}: there is no such process"),
        std::io::ErrorKind::PermissionDenied => format!("{pid}: may not be looked into; only its owner and root can"),
        _ => format!("{pid}: {error}"),
    }
}

fn library(path: &Path) -> Result<Looked, Failure> {
    Ok(file(Image::open(path)?)?)
}

fn process(pid: i32, mapped: &Mapped) -> Result<Looked, Failure> {
    let image = Image::of_mapping(pid, &mapped.first, &mapped.path)?;
    Ok(Looked::at(image, Users { users: vec![mapped.user.clone()], hidden: 0 })?)
}

fn file(image: Image) -> Result<Looked, LiveError> {
    let users = image.users()?;
    Looked::at(image, users)
}

/// What there is to be seen of a file.
pub struct Looked {
    pub image: Image,
    pub users: Users,
    pub promotable: Vec<Window>,
    /// What the page cache holds of it, and which regions are superpages; nothing where this is not shown.
    pub cached: Option<(Held, Vec<bool>)>,
}

impl Looked {
    fn at(image: Image, users: Users) -> Result<Looked, LiveError> {
        let promotable = image.promotable();
        let cached = match image.cache_is_told() {
            true => Some((image.held()?, image.as_superpages(&promotable)?)),
            false => None,
        };
        Ok(Looked { image, users, promotable, cached })
    }

    /// Bytes of code in memory, by order of folio.
    pub fn by_order(&self, held: &Held) -> [u64; ORDERS] {
        let mut bytes = [0; ORDERS];
        for segment in self.image.elf.code() {
            bytes.iter_mut().zip(held.by_order(&file_range(segment))).for_each(|(sum, more)| *sum += more);
        }
        bytes
    }

    /// How many regions have how many clusters in memory (Zhou et al. 2023, Figure 2).
    pub fn clusters(&self, held: &Held) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        for range in self.promotable.iter().filter_map(Window::file_range) {
            *counts.entry(held.clusters(&range).0).or_default() += 1;
        }
        counts
    }
}

fn table(looked: &Looked) -> String {
    heading(&looked.image) + &segments(&looked.image) + &facts(looked)
}

fn heading(image: &Image) -> String {
    let (size, place) = (memory(image.elf.size), image.file_system.name());
    format!("{}\n{}, {size} on {place}\n", image.path.display(), image.kind())
}

fn segments(image: &Image) -> String {
    let rows = image.elf.code().map(|segment| row(image, segment));
    tabulate::numbers(["  executable", "code", "superpages", "head", "tail", "padding"], rows)
}

fn row(image: &Image, segment: &Segment) -> [String; 6] {
    let pages = segment.file_pages();
    let whole = |window: &&Window| {
        window.fit == Fit::Whole && window.vaddr >= pages.start && window.vaddr + SUPERPAGE <= pages.end
    };
    let [head, tail] = layout::residual(segment, &image.windows);
    let bytes = |residual: Option<(u64, Fit)>| residual.map_or("0".to_owned(), |(bytes, _)| memory(bytes));
    let padding = match (head.map(|(_, fit)| padding(fit)), tail.map(|(_, fit)| padding(fit))) {
        (None, None) => "not needed".to_owned(),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (Some(head), Some(tail)) if head == tail => head.to_owned(),
        (Some(head), Some(tail)) => format!("{head}; {tail}"),
    };
    [
        format!("  {:#x}", segment.vaddr),
        memory(pages.end - pages.start),
        image.windows.iter().filter(whole).count().to_string(),
        bytes(head),
        bytes(tail),
        padding,
    ]
}

/// How a window that is not whole could be filled.
fn padding(fit: Fit) -> &'static str {
    match fit {
        Fit::Whole => "none",
        Fit::PadInCopy => "align, run",
        Fit::PadAtRun => "run",
        Fit::Writable => "no: data",
    }
}

fn facts(looked: &Looked) -> String {
    let Looked { image, users, promotable, cached } = looked;
    let mut facts = vec![("  address", address(&image.elf, image.congruence()))];
    match cached {
        Some((held, superpages)) => {
            let code: u64 = looked.by_order(held).iter().sum();
            let mut text = format!("{} of {} of code", memory(code), memory(layout::code_bytes(&image.elf)));
            if !held.orders_known {
                text += "; the sizes of folios are shown to root only";
            } else if code > 0 {
                text += &format!("; in folios of {}", orders(&looked.by_order(held)));
            }
            facts.push(("  page cache", text));
            if !promotable.is_empty() {
                let ready = superpages.iter().filter(|&&superpage| superpage).count();
                let ready = format!("{ready} of {} would be mapped as such by the next process", promotable.len());
                facts.push(("  superpages", ready));
                facts.push(("  clusters", clusters(&looked.clusters(held))));
            }
        }
        None => facts.push(("  page cache", "is shown to the owner of the file and to root only".into())),
    }
    facts.push(("  as superpages", mapped(users, !promotable.is_empty())));
    tabulate::definitions(facts.iter().map(|(name, text)| (*name, text.as_str())))
}

/// Who has how much of the code mapped with superpages.
fn mapped(users: &Users, promotable: bool) -> String {
    let named = |user: &&User| {
        let off = if user.congruent || !promotable { "" } else { ", at an address where superpages cannot be" };
        format!("{} ({}) {} of {}{off}", user.name, user.pid, memory(user.superpages), memory(user.code))
    };
    let coders: Vec<&User> = users.users.iter().filter(|user| user.code > 0).collect();
    let mut lines: Vec<String> = coders.iter().take(NAMED).map(named).collect();
    if coders.len() > NAMED {
        lines.push(format!("and {} more", coders.len() - NAMED));
    }
    if users.hidden > 0 {
        lines.push(format!("{} cannot be looked into", plural(users.hidden as u64, "process", "processes")));
    }
    if lines.is_empty() { "by no process".into() } else { lines.join("\n") }
}

/// So many processes are named.
const NAMED: usize = 8;

fn file_range(segment: &Segment) -> std::ops::Range<u64> {
    segment.offset..segment.offset + segment.file_size
}

fn address(elf: &Elf, congruence: Congruence) -> String {
    match congruence {
        Congruence::Always => "superpages are possible wherever it is loaded".into(),
        Congruence::WhereLoaded if elf.kind == Kind::Library => {
            "superpages are possible where the loader puts it on a multiple of 2 MB".into()
        }
        Congruence::WhereLoaded => {
            "superpages are possible at one address in 512 only: `reach text align` makes a copy without this chance"
                .into()
        }
        Congruence::Never => {
            "superpages are not possible: addresses and file offsets differ modulo 2 MB; relink, or `reach text align`"
                .into()
        }
    }
}

/// Bytes by size of folio, in words.
pub fn orders(bytes: &[u64; ORDERS]) -> String {
    let sizes = bytes.iter().enumerate().filter(|(_, bytes)| **bytes > 0);
    let each = sizes.map(|(order, &bytes)| format!("{}: {}", memory(4096 << order).replace(".0", ""), memory(bytes)));
    each.collect::<Vec<_>>().join(", ")
}

fn clusters(counts: &BTreeMap<u64, u64>) -> String {
    let each: Vec<String> = counts.iter().rev().map(|(clusters, regions)| format!("{clusters} in {regions}")).collect();
    format!("of 64 KB that are resident, of 32 in each region of 2 MB: {}", each.join(", "))
}

/// A metric of a file.
#[derive(Serialize)]
struct Row {
    file: String,
    metric: String,
    unit: &'static str,
    value: u64,
}

fn rows(looked: &Looked) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |metric: String, unit, value| {
        rows.push(Row { file: looked.image.path.display().to_string(), metric, unit, value });
    };
    let windows = &looked.image.windows;
    let fits = |fit: Fit| windows.iter().filter(|window| window.fit == fit).count() as u64;
    add("code_bytes".into(), "bytes", layout::code_bytes(&looked.image.elf));
    add("regions".into(), "regions", looked.promotable.len() as u64);
    for (name, fit) in [("align", Fit::PadInCopy), ("run", Fit::PadAtRun), ("no", Fit::Writable)] {
        add(format!("padding.{name}"), "regions", fits(fit));
    }
    if let Some((held, superpages)) = &looked.cached {
        add("resident_bytes".into(), "bytes", looked.by_order(held).iter().sum());
        for (order, bytes) in
            looked.by_order(held).into_iter().enumerate().filter(|(_, bytes)| held.orders_known && *bytes > 0)
        {
            add(format!("folios.{}K", 4 << order), "bytes", bytes);
        }
        add("superpages".into(), "regions", superpages.iter().filter(|&&superpage| superpage).count() as u64);
        for (clusters, regions) in looked.clusters(held) {
            add(format!("clusters.{clusters}"), "regions", regions);
        }
    }
    for user in looked.users.users.iter().filter(|user| user.code > 0) {
        add(format!("mapped.{}", user.pid), "bytes", user.code);
        add(format!("mapped_superpages.{}", user.pid), "bytes", user.superpages);
    }
    rows
}
