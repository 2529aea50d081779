//! `reach text align`: writes an aligned and padded copy of a program.

use crate::args::this_linux::AlignArgs;
use crate::failure::{Failure, VerbResult};
use crate::units::{memory, plural};
use crate::{output, tabulate};
use reach_core::Shown;
use reach_live::align::{self, AlignError, Changes};
use reach_live::held::HeldFile;
use reach_live::image::Image;
use reach_live::load;
use reach_live::place::{NewFile, Place};
use reach_live::promote::LINKER_FLAGS;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes an aligned copy without a name, loads it to verify it, and gives it its name.
pub fn align(args: &AlignArgs) -> VerbResult {
    let image = Image::open(&args.file)?;
    let (from, to) = (&image.path, &args.output);
    let name = to.file_name().ok_or_else(|| Failure::Usage(format!("{}: is no name for a file", to.shown())))?;
    let folder = HeldFile::open(to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
    if HeldFile::open(to).is_ok_and(|to| to.id() == image.held.id()) {
        return Err(Failure::Usage(format!("{}: is the file itself; give the copy another name", to.shown())));
    }
    // Through its descriptor, the folder stays the same, whoever renames it.
    let target = folder.link().join(name);
    if target.symlink_metadata().is_ok() && !args.force {
        let message = format!("{}: exists already; give another name, or --force to replace it", to.shown());
        return Err(Failure::Usage(message));
    }
    let bytes = image.bytes()?;
    let (copy, changes) = align::align(&bytes, !args.no_padding).map_err(|error| explain(from, &error))?;
    let failed = |error| Failure::writing(to, error);
    let place = Place::new(&folder, name).map_err(failed)?;
    place.sweep().map_err(failed)?;
    // The copy has no name until it is verified.
    let mut new = NewFile::create(&place).map_err(failed)?;
    new.file().write_all(&copy).map_err(failed)?;
    let mode = image.file.metadata().map_err(failed)?.permissions().mode() & 0o777;
    new.file().set_permissions(Permissions::from_mode(mode)).map_err(failed)?;
    new.file().sync_all().map_err(failed)?;
    new.close_for_writing().map_err(failed)?;
    let copy = HeldFile::of(&folder.path().join(name), new.file()).and_then(Image::of)?;
    load::verify_copy(&image, &copy).map_err(|error| Failure::Failed(format!("the copy does not load: {error}")))?;
    new.finish(args.force).map_err(failed)?;
    output::print(&tabulate::fitted(&report(to, &copy, &changes)))?;
    Ok(0)
}

/// Adds to an error of alignment what the user can do.
fn explain(path: &Path, error: &AlignError) -> Failure {
    match error {
        AlignError::Nothing => Failure::Failed(format!("{}: {error}; no copy is needed", path.shown())),
        AlignError::Impossible(_) => Failure::Failed(format!("{}: {error}; link it with {LINKER_FLAGS}", path.shown())),
        AlignError::Elf(_) => Failure::Failed(format!("{}: {error}", path.shown())),
    }
}

fn report(path: &Path, copy: &Image, changes: &Changes) -> String {
    let mut lines = vec![path.shown().into_owned()];
    if changes.moved {
        lines.push("  segments moved in the file, so that addresses and offsets agree modulo 2 MB".into());
    }
    if changes.aligned > 0 {
        lines.push(format!("  {} aligned to 2 MB", plural(changes.aligned as u64, "segment", "segments")));
    }
    if changes.padded > 0 {
        lines.push(format!(
            "  {} added to executable segments to fill regions of 2 MB; read-only data among it is executable in the copy",
            memory(changes.padded)
        ));
    }
    let (whole, all) = (copy.promotable().len(), copy.regions.len());
    lines.push(format!("  {whole} of {all} regions of 2 MB with code can be superpages"));
    if whole < all {
        lines.push("  the others share their 2 MB with writable data; relink to separate them:".into());
        lines.push(format!("    {LINKER_FLAGS}"));
    }
    lines.push(
        "  the kernel maps the copy, and its loader finds the same libraries; `reach text promote` makes superpages of it"
            .into(),
    );
    lines.join("\n") + "\n"
}
