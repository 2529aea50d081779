//! `reach text show`: shows which code can be superpages, and which is.

use crate::args::results::Format;
use crate::args::this_linux::ShowArgs;
use crate::failure::{Failure, VerbResult, print_error};
use crate::units::{memory, plural};
use crate::{output, tabulate};
use reach_core::Shown as _;
use reach_live::elf::{Elf, Kind, Segment};
use reach_live::error::LiveError;
use reach_live::image::Image;
use reach_live::layout::{self, Congruence, Fit, Region, SUPERPAGE};
use reach_live::users::{self, Mapped, User, Users};
use reach_live::{cache::Resident, frames::ORDERS, libraries, libraries::Library};
use serde::Serialize;
use std::collections::BTreeMap;

/// Shows all files and processes. A failure of one does not stop the others; the exit status is then 1.
pub fn show(args: &ShowArgs) -> VerbResult {
    let mut status = 0;
    let mut first = true;
    // Whether the processes that cannot be examined were named: they are the same for each file.
    let mut told = false;
    let mut print = |shown: Result<Shown, Failure>| {
        let is_first = std::mem::take(&mut first);
        match shown {
            Ok(shown) => {
                // Rows cannot hold names.
                if args.format != Format::Table && !std::mem::replace(&mut told, true) {
                    not_examined(&shown.users).iter().for_each(print_error);
                }
                output::print(&match args.format {
                    Format::Table => {
                        tabulate::fitted(&format!("{}{}", if is_first { "" } else { "\n" }, table(&shown)))
                    }
                    Format::Jsonl => rows(&shown).iter().map(|row| output::json(row) + "\n").collect(),
                    Format::Csv => output::csv_part(&rows(&shown), is_first),
                })
            }
            Err(Failure::Failed(message) | Failure::Usage(message)) => {
                print_error(message);
                status = 1;
                Ok(())
            }
            Err(other) => Err(other),
        }
    };
    for target in &args.targets {
        // A number is a process ID, unless a file has that name.
        match target.to_str().and_then(|text| text.parse().ok()).filter(|_| !target.exists()) {
            Some(pid) => match users::code_of(pid) {
                Ok(mapped) => mapped.iter().try_for_each(|file| print(process(pid, file)))?,
                Err(error) => print(Err(Failure::Failed(no_process(pid, &error))))?,
            },
            None => {
                let image = Image::open(target);
                let libraries = match &image {
                    Ok(image) if args.libraries => libraries::of(image),
                    _ => Ok(Vec::new()),
                };
                print(image.and_then(file).map_err(Failure::from))?;
                match libraries {
                    Ok(found) => {
                        found.iter().filter(|found| found.has_code).try_for_each(|found| print(library(found)))?
                    }
                    Err(error) => print(Err(error.into()))?,
                }
            }
        }
    }
    Ok(status)
}

/// Returns the message for a process that cannot be examined.
pub fn no_process(pid: i32, error: &std::io::Error) -> String {
    // Its name is visible to everybody.
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = name.trim_end_matches('\n').shown();
    match error.kind() {
        std::io::ErrorKind::NotFound if users::others_are_invisible() => {
            format!("{pid}: no such process of this user, and /proc hides those of others")
        }
        std::io::ErrorKind::NotFound => format!("{pid}: no such process"),
        std::io::ErrorKind::PermissionDenied => {
            format!("process {pid} ({name}): the kernel does not let this user examine it; only its owner and root may")
        }
        _ => format!("process {pid} ({name}): cannot be examined: {error}"),
    }
}

fn library(found: &Library) -> Result<Shown, Failure> {
    Ok(file(found.open()?)?)
}

fn process(pid: i32, mapped: &Mapped) -> Result<Shown, Failure> {
    let users = Users { users: vec![mapped.user.clone()], ..Users::default() };
    let shown = Image::of_mapping(pid, &mapped.first, &mapped.path).and_then(|image| Shown::at(image, users));
    shown.map_err(|error| Failure::Failed(format!("process {pid} ({}): {error}", mapped.user.name.shown())))
}

fn file(image: Image) -> Result<Shown, LiveError> {
    let users = image.users()?;
    Shown::at(image, users)
}

/// The state of one file.
pub struct Shown {
    pub image: Image,
    pub users: Users,
    /// Regions that can be superpages.
    pub promotable: Vec<Region>,
    /// What the page cache holds of it, and which of `promotable` map as superpages. `None` if the kernel hides this.
    pub cached: Option<(Resident, Vec<bool>)>,
}

impl Shown {
    fn at(image: Image, users: Users) -> Result<Shown, LiveError> {
        let promotable = image.promotable();
        let cached = match image.cache_is_visible() {
            true => Some((image.resident()?, image.as_superpages(&promotable)?)),
            false => None,
        };
        Ok(Shown { image, users, promotable, cached })
    }

    /// Returns the resident bytes of code by folio order: the folio has 2^order base pages.
    pub fn by_order(&self, held: &Resident) -> [u64; ORDERS] {
        let mut bytes = [0; ORDERS];
        for segment in self.image.elf.code() {
            bytes.iter_mut().zip(held.by_order(&file_range(segment))).for_each(|(sum, bytes)| *sum += bytes);
        }
        bytes
    }

    /// Counts the regions by their number of resident clusters (Zhou et al. 2023, Figure 2).
    pub fn clusters(&self, held: &Resident) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        for range in self.promotable.iter().filter_map(Region::file_range) {
            *counts.entry(held.clusters(&range).0).or_default() += 1;
        }
        counts
    }
}

fn table(shown: &Shown) -> String {
    heading(&shown.image) + &segments(&shown.image) + &facts(shown)
}

fn heading(image: &Image) -> String {
    let (size, place) = (memory(image.elf.size), image.file_system.name());
    format!("{}\n{}, {size} on {place}\n", image.path.shown(), image.kind())
}

fn segments(image: &Image) -> String {
    let rows = image.elf.code().map(|segment| row(image, segment));
    let header = ["  executable\n  segment at", "code", "whole\nregions", "code\nbefore", "code\nafter", "padded by"];
    tabulate::numbers(header, rows)
}

fn row(image: &Image, segment: &Segment) -> [String; 6] {
    let pages = segment.file_pages();
    let whole = |region: &&Region| {
        region.fit == Fit::Whole && region.vaddr >= pages.start && region.vaddr + SUPERPAGE <= pages.end
    };
    let [head, tail] = layout::residual(segment, &image.regions);
    let bytes = |residual: Option<(u64, Fit)>| residual.map_or("0".to_owned(), |(bytes, _)| memory(bytes));
    let padding = match (head.map(|(_, fit)| padding(fit)), tail.map(|(_, fit)| padding(fit))) {
        (None, None) => "–".to_owned(),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (Some(head), Some(tail)) if head == tail => head.to_owned(),
        (Some(head), Some(tail)) => format!("{head}; {tail}"),
    };
    [
        format!("  {:#x}", segment.vaddr),
        memory(pages.end - pages.start),
        image.regions.iter().filter(whole).count().to_string(),
        bytes(head),
        bytes(tail),
        padding,
    ]
}

/// Names the verbs of `reach text` that can pad a region to a whole one.
fn padding(fit: Fit) -> &'static str {
    match fit {
        Fit::Whole => "none",
        Fit::PadInCopy => "align, run",
        Fit::PadAtRun => "run",
        Fit::Writable => "nothing",
    }
}

fn facts(shown: &Shown) -> String {
    let Shown { image, users, promotable, cached } = shown;
    let mut facts = vec![("  alignment", alignment(&image.elf, image.congruence()))];
    match cached {
        Some((held, superpages)) => {
            let code: u64 = shown.by_order(held).iter().sum();
            let mut text = format!("holds {} of {} of code", memory(code), memory(layout::code_bytes(&image.elf)));
            if !held.orders_known {
                text += "; the sizes of its folios are visible to root only";
            } else if code > 0 {
                text += &format!(": {}", orders(&shown.by_order(held)));
            }
            facts.push(("  page cache", text));
            if promotable.is_empty() {
                let pads = image.regions.iter().any(|region| matches!(region.fit, Fit::PadInCopy | Fit::PadAtRun));
                let remedy = if pads { "; padding would give some" } else { "" };
                facts.push(("  superpages", format!("impossible: no aligned 2 MB of the file is all code{remedy}")));
            } else {
                let ready = superpages.iter().filter(|&&superpage| superpage).count();
                let all = plural(promotable.len() as u64, "region", "regions");
                facts.push((
                    "  superpages",
                    format!("a process that starts now maps {ready} of {all} with a superpage"),
                ));
                facts.push(("  clusters", clusters(&shown.clusters(held))));
            }
        }
        None => facts.push(("  page cache", "visible to the owner of the file and to root only".into())),
    }
    facts.push(("  mapped by", mapped(users, !promotable.is_empty())));
    tabulate::definitions(facts.iter().map(|(name, text)| (*name, text.as_str())))
}

/// Lists the processes that map the code, and how much of it with superpages.
fn mapped(users: &Users, promotable: bool) -> String {
    let named = |user: &&User| {
        let off = if user.congruent || !promotable { "" } else { "; its address allows no more" };
        format!(
            "{} ({}): {} of code, {} with superpages{off}",
            user.name.shown(),
            user.pid,
            memory(user.code),
            if user.superpages == 0 { "none".to_owned() } else { memory(user.superpages) },
        )
    };
    let mappers: Vec<&User> = users.users.iter().filter(|user| user.code > 0).collect();
    let mut lines: Vec<String> = mappers.iter().take(NAMED).map(named).collect();
    if mappers.len() > NAMED {
        lines.push(format!("and {} more", mappers.len() - NAMED));
    }
    let not_examined = not_examined(users);
    if mappers.is_empty() {
        lines.push(if not_examined.is_some() { "no process that this user can examine" } else { "no process" }.into());
    }
    lines.extend(not_examined);
    lines.join("\n")
}

/// Greatest number of processes to name.
const NAMED: usize = 8;

/// Names the processes whose mappings this user may not see. `None` if all were examined.
fn not_examined(users: &Users) -> Option<String> {
    if users.others_invisible {
        return Some("not examined: processes of other users, which /proc hides".into());
    }
    let named = users::listed(users.hidden.iter().map(|hidden| (hidden.name.as_str(), hidden.pid)), "and");
    (!named.is_empty()).then(|| format!("not examined, because the kernel does not let this user: {}", named.shown()))
}

fn file_range(segment: &Segment) -> std::ops::Range<u64> {
    segment.offset..segment.offset + segment.file_size
}

fn alignment(elf: &Elf, congruence: Congruence) -> String {
    match congruence {
        Congruence::Always if elf.kind == Kind::Fixed => "allows superpages at its fixed address".into(),
        Congruence::Always => "allows superpages wherever the file is loaded".into(),
        Congruence::WhereLoaded if elf.kind == Kind::Library => {
            "allows superpages if the loader chooses a multiple of 2 MB".into()
        }
        Congruence::WhereLoaded => {
            "allows superpages at one address in 512 only; `reach text align` makes a copy that always allows them"
                .into()
        }
        Congruence::Never => {
            "allows no superpages: addresses and file offsets differ modulo 2 MB; relink it, or use `reach text align`"
                .into()
        }
    }
}

/// Formats bytes by folio size: `1.2 MB in folios of 64 KB, 40 MB in folios of 2 MB`.
pub fn orders(bytes: &[u64; ORDERS]) -> String {
    let sizes = bytes.iter().enumerate().filter(|(_, bytes)| **bytes > 0);
    let each = sizes
        .map(|(order, &bytes)| format!("{} in folios of {}", memory(bytes), memory(4096 << order).replace(".0", "")));
    each.collect::<Vec<_>>().join(", ")
}

/// Formats how many regions have how many of their clusters in memory.
fn clusters(counts: &BTreeMap<u64, u64>) -> String {
    let each = counts.iter().rev().map(|(clusters, regions)| match regions {
        1 => format!("{clusters} in 1 region"),
        _ => format!("{clusters} in each of {regions} regions"),
    });
    format!("in memory, of a region's 32 clusters of 64 KB: {}", each.collect::<Vec<_>>().join(", "))
}

/// A row of the results: one metric of one file.
#[derive(Serialize)]
struct Row {
    file: String,
    metric: String,
    unit: &'static str,
    value: u64,
}

fn rows(shown: &Shown) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |metric: String, unit, value| {
        rows.push(Row { file: shown.image.path.display().to_string(), metric, unit, value });
    };
    let regions = &shown.image.regions;
    let count = |fit: Fit| regions.iter().filter(|region| region.fit == fit).count() as u64;
    add("code_bytes".into(), "bytes", layout::code_bytes(&shown.image.elf));
    add("regions".into(), "regions", shown.promotable.len() as u64);
    for (name, fit) in [("align", Fit::PadInCopy), ("run", Fit::PadAtRun), ("no", Fit::Writable)] {
        add(format!("padding.{name}"), "regions", count(fit));
    }
    if let Some((held, superpages)) = &shown.cached {
        add("resident_bytes".into(), "bytes", shown.by_order(held).iter().sum());
        for (order, bytes) in
            shown.by_order(held).into_iter().enumerate().filter(|(_, bytes)| held.orders_known && *bytes > 0)
        {
            add(format!("folios.{}K", 4 << order), "bytes", bytes);
        }
        add("superpages".into(), "regions", superpages.iter().filter(|&&superpage| superpage).count() as u64);
        for (clusters, regions) in shown.clusters(held) {
            add(format!("clusters.{clusters}"), "regions", regions);
        }
    }
    if !shown.users.hidden.is_empty() {
        add("processes_not_examined".into(), "processes", shown.users.hidden.len() as u64);
    }
    for user in shown.users.users.iter().filter(|user| user.code > 0) {
        add(format!("mapped.{}", user.pid), "bytes", user.code);
        add(format!("mapped_superpages.{}", user.pid), "bytes", user.superpages);
    }
    rows
}
