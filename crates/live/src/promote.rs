//! Promoting the code of a file to superpages in the page cache itself, and undoing it.
//!
//! A folio of 2 MB comes about when the page cache reads a file through a mapping that asked for superpages (on file systems
//! with large folios: ext4 since Linux 6.16, XFS and others before). What is there in smaller pages must go first, and
//! stays while somebody has it mapped. On tmpfs the pages are the file, and are collapsed in place. The file's bytes are
//! only ever read.

use crate::elf::{BASE, Kind};
use crate::error::{LiveError, LiveErrorKind};
use crate::frames::ORDERS;
use crate::host::{self, FileSystem, Lack};
use crate::image::Image;
use crate::layout::{self, CLUSTER, Congruence, Region, SUPERPAGE};
use crate::lease;
use crate::map::{self, Advice, FileMap};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

/// Clusters of 64 KB in a superpage.
pub const CLUSTERS: u64 = SUPERPAGE / CLUSTER;

/// The flags that make the linker align code, as people type them.
pub const LINKER_FLAGS: &str =
    "-Wl,-z,max-page-size=0x200000,-z,separate-code (with lld: -z,separate-loadable-segments)";

/// What to promote of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Regions of 2 MB with at least so many of their 32 clusters resident (Zhou et al. 2023, section 5): 0 for all.
    pub threshold: u64,
    /// Promote what no process has mapped, rather than nothing, where some have.
    pub around_users: bool,
}

/// How a file's code is held in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Regions of 2 MB that are all code.
    pub regions: usize,
    /// Those that the next process would map with superpages: tried, not guessed.
    pub superpages: usize,
    /// Bytes of the code in memory.
    pub resident: u64,
    /// The same by the order of their folios, where the kernel tells.
    pub by_order: Option<[u64; ORDERS]>,
}

impl State {
    /// Looks.
    ///
    /// # Errors
    /// When the page cache of this file cannot be seen.
    pub fn of(image: &Image) -> Result<State, LiveError> {
        if !image.cache_is_visible() {
            return Err(LiveError::new(&image.path, LiveErrorKind::NotOwner));
        }
        let (held, regions) = (image.held()?, image.promotable());
        let ranges = || image.elf.code().map(|segment| segment.offset..segment.offset + segment.file_size);
        let mut by_order = [0; ORDERS];
        for range in ranges() {
            by_order.iter_mut().zip(held.by_order(&range)).for_each(|(sum, more)| *sum += more);
        }
        Ok(State {
            regions: regions.len(),
            superpages: image.as_superpages(&regions)?.into_iter().filter(|&yes| yes).count(),
            resident: ranges().map(|range| held.bytes(&range)).sum(),
            by_order: held.orders_known.then_some(by_order),
        })
    }
}

/// What became of a file's regions of 2 MB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// They were superpages before.
    pub already: usize,
    /// They had too few clusters resident.
    pub below_threshold: usize,
    /// A process has them mapped with smaller pages, or they cannot be evicted for another reason.
    pub busy: usize,
    /// They are superpages now.
    pub promoted: usize,
    /// They were read anew, and are no superpages.
    pub failed: usize,
}

/// Whether a file's code can be promoted as it is.
///
/// # Errors
/// Why not, and what to do.
pub fn check(image: &Image) -> Result<(), LiveError> {
    let plain = |what: String| Err(LiveError::plain(&image.path, what));
    match host::superpage() {
        Some(SUPERPAGE) => {}
        Some(other) => return plain(format!("this kernel's superpages are of {other} bytes; only 2 MB is supported")),
        None => return plain("this kernel has no transparent superpages".into()),
    }
    match image.congruence() {
        Congruence::Never => {
            return plain(format!(
                "its code cannot be mapped with superpages: addresses and file offsets differ modulo 2 MB; try `reach \
                 text align` for an aligned copy, or link it with {LINKER_FLAGS}"
            ));
        }
        Congruence::WhereLoaded if image.elf.kind == Kind::Pie => {
            return plain(format!(
                "its code is not aligned to 2 MB, and is loaded where superpages are possible by chance only; `reach \
                 text align` makes an aligned copy, or link it with {LINKER_FLAGS}"
            ));
        }
        Congruence::WhereLoaded | Congruence::Always => {}
    }
    if image.promotable().is_empty() {
        let code = layout::code_bytes(&image.elf) >> 10;
        return plain(format!(
            "has no aligned region of 2 MB that is all code (it has {code} KB of code); `reach text show` says whether it \
             can be padded"
        ));
    }
    if !image.cache_is_visible() {
        return Err(LiveError::new(&image.path, LiveErrorKind::NotOwner));
    }
    match lease::being_written(&image.file) {
        Ok(true) => Err(LiveError::new(&image.path, LiveErrorKind::BeingWritten)),
        Ok(false) => Ok(()),
        Err(error) => Err(LiveError::io(&image.path, "whether it is being written cannot be found out")(error)),
    }
}

/// Promotes, and says what became of each region of 2 MB, as verified in fresh mappings.
///
/// # Errors
/// When nothing can be promoted: see [`check`]; or when the file is in use and `around_users` is off.
pub fn promote(image: &Image, request: Request) -> Result<Outcome, LiveError> {
    check(image)?;
    let failed = |doing| LiveError::io(&image.path, doing);
    let regions = image.promotable();
    let (held, ready) = (image.held()?, image.as_superpages(&regions)?);
    let resident = |region: &Region| region.file_range().map_or(0, |range| held.clusters(&range).0);
    let mut outcome = Outcome::default();
    let mut targets = Vec::new();
    for (region, ready) in regions.into_iter().zip(ready) {
        match ready {
            true => outcome.already += 1,
            false if resident(&region) < request.threshold => outcome.below_threshold += 1,
            false => targets.push(region),
        }
    }
    if targets.is_empty() {
        return Ok(outcome);
    }
    if image.file_system != FileSystem::Tmpfs {
        let before = targets.len();
        targets = evict(image, targets, request)?;
        outcome.busy = before - targets.len();
    }
    for attempt in 1..=ATTEMPTS {
        for region in &targets {
            // Another process may have mapped it since: then it stays as it is.
            if attempt > 1 && image.file_system != FileSystem::Tmpfs && !throw_out(image, region)? {
                continue;
            }
            fill(image, region).map_err(failed("cannot be read into memory"))?;
        }
        let superpages = image.as_superpages(&targets)?;
        let before = targets.len();
        targets = targets.into_iter().zip(superpages).filter(|(_, yes)| !yes).map(|(region, _)| region).collect();
        outcome.promoted += before - targets.len();
        // A file system that makes a superpage of no region has none to make.
        if targets.is_empty() || outcome.promoted == 0 {
            break;
        }
    }
    outcome.failed = targets.len();
    Ok(outcome)
}

/// A region is read so many times: each finds other free memory.
const ATTEMPTS: usize = 4;

/// Throws regions out of the page cache, and gives those that went.
fn evict(image: &Image, targets: Vec<Region>, request: Request) -> Result<Vec<Region>, LiveError> {
    let users = image.users()?;
    let in_use = || Err(LiveError::new(&image.path, LiveErrorKind::InUse { by: users.phrase() }));
    if !users.users.is_empty() && !request.around_users {
        return in_use();
    }
    // What is not on disk yet cannot be evicted.
    image.file.sync_all().map_err(LiveError::io(&image.path, "cannot be written to disk"))?;
    let throw = |region: &Region| throw_out(image, region);
    let mut gone: Vec<bool> = targets.iter().map(throw).collect::<Result<_, _>>()?;
    if users.users.is_empty() && gone.contains(&false) {
        // Of a file seen through an overlay, the layer below may still have to be written.
        rustix::fs::sync();
        gone = targets.iter().map(throw).collect::<Result<_, _>>()?;
    }
    if !request.around_users && gone.contains(&false) {
        return in_use();
    }
    Ok(targets.into_iter().zip(gone).filter(|(_, gone)| *gone).map(|(region, _)| region).collect())
}

/// Throws a region out of the page cache; `false` when some of it stays.
fn throw_out(image: &Image, region: &Region) -> Result<bool, LiveError> {
    let Some(range) = region.file_range() else { return Ok(false) };
    let failed = |doing| LiveError::io(&image.path, doing);
    let (start, length) = (range.start, std::num::NonZero::new(SUPERPAGE));
    let evicted = rustix::fs::fadvise(&image.file, start, length, rustix::fs::Advice::DontNeed);
    evicted.map_err(io::Error::from).map_err(failed("cannot be evicted from memory"))?;
    let resident = FileMap::new(&image.file, range).and_then(|map| map.resident());
    Ok(!resident.map_err(failed("its page cache cannot be examined"))?.contains(&true))
}

/// Reads a region in, asking for superpages.
fn fill(image: &Image, region: &Region) -> io::Result<()> {
    let Some(range) = region.file_range() else { return Ok(()) };
    let map = FileMap::new(&image.file, range)?;
    let all = 0..SUPERPAGE;
    if image.file_system == FileSystem::Tmpfs {
        map.advise(all.clone(), Advice::Populate)?;
        // What came of it is seen in a fresh mapping.
        let _ = map.advise(all, Advice::Collapse);
        return Ok(());
    }
    // Only this region, and not what is after it.
    map.advise(all.clone(), Advice::Random)?;
    if !host::lacks(Lack::LargeFolios) {
        map::make_room();
        // Where this is not known, there are no superpages, as will be seen.
        let _ = map.advise(all.clone(), Advice::Huge);
    }
    map.advise(all, Advice::Populate)
}

/// Undoes promotion: reads what is in superpages back in base pages. Gives the number of regions.
///
/// # Errors
/// When the file is in use, or lies on a file system where superpages cannot be undone.
pub fn restore(image: &Image) -> Result<usize, LiveError> {
    if !image.cache_is_visible() {
        return Err(LiveError::new(&image.path, LiveErrorKind::NotOwner));
    }
    let regions = image.promotable();
    let ready = image.as_superpages(&regions)?;
    let targets: Vec<Region> =
        regions.into_iter().zip(ready).filter(|(_, ready)| *ready).map(|(region, _)| region).collect();
    if targets.is_empty() {
        return Ok(0);
    }
    if image.file_system == FileSystem::Tmpfs {
        let what = "on tmpfs, superpages are the file itself and stay until it is removed";
        return Err(LiveError::plain(&image.path, what));
    }
    let count = targets.len();
    let gone = evict(image, targets, Request { threshold: 0, around_users: false })?;
    gone.iter().filter_map(Region::file_range).try_for_each(|range| as_base_pages(image, range))?;
    Ok(count)
}

/// Reads part of a file that is not in memory, in folios of one base page.
fn as_base_pages(image: &Image, range: std::ops::Range<u64>) -> Result<(), LiveError> {
    let failed = |doing| LiveError::io(&image.path, doing);
    let again = image.file.as_fd().try_clone_to_owned().map_err(failed("cannot be opened again"))?;
    let file = std::fs::File::from(again);
    let advised = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random);
    advised.map_err(io::Error::from).map_err(failed("cannot be read page by page"))?;
    let mut page = [0; BASE as usize];
    for offset in range.step_by(BASE as usize) {
        file.read_at(&mut page, offset).map_err(failed("cannot be read"))?;
    }
    Ok(())
}
