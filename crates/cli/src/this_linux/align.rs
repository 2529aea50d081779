//! `reach text align`.

use crate::args::this_linux::AlignArgs;
use crate::failure::{Done, Failure};
use crate::output;
use crate::units::{memory, plural};
use reach_live::align::{self, AlignError, Changes};
use reach_live::image::Image;
use reach_live::promote::LINKER_FLAGS;
use reach_live::trial;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes an aligned copy, and loads it before it gets its name.
pub fn align(args: &AlignArgs) -> Done {
    let image = Image::open(&args.file)?;
    let (from, to) = (&image.path, &args.output);
    if to.canonicalize().is_ok_and(|to| to == *from) {
        return Err(Failure::Usage(format!("{}: a copy is not made in place; give another name", to.display())));
    }
    if to.exists() && !args.force {
        let what = format!("{}: exists already; give another name, or --force to replace it", to.display());
        return Err(Failure::Usage(what));
    }
    let bytes = std::fs::read(from).map_err(|error| Failure::reading(from, error))?;
    let (copy, changes) = align::align(&bytes, !args.no_padding).map_err(|error| impossible(from, &error))?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = |error| Failure::writing(to, error);
    // Until it has been loaded, it has another name; it goes away with this process.
    let mut file = tempfile::Builder::new().prefix(".reach-align-").tempfile_in(folder).map_err(failed)?;
    file.write_all(&copy).map_err(failed)?;
    let mode = image.file.metadata().map_err(failed)?.permissions().mode() & 0o777;
    file.as_file().set_permissions(Permissions::from_mode(mode)).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    // No descriptor for writing may be open when it is executed.
    let path = file.into_temp_path();
    trial::same(&image, &path).map_err(|error| Failure::Failed(format!("the copy does not load: {error}")))?;
    path.persist(to).map_err(|error| Failure::writing(to, error.error))?;
    output::print(&report(to, &Image::open(to)?, &changes))?;
    Ok(0)
}

fn impossible(path: &Path, error: &AlignError) -> Failure {
    match error {
        AlignError::Nothing => Failure::Failed(format!("{}: {error}; no copy is needed", path.display())),
        AlignError::Impossible(_) => {
            Failure::Failed(format!("{}: {error}; link it with {LINKER_FLAGS}", path.display()))
        }
        AlignError::Elf(_) => Failure::Failed(format!("{}: {error}", path.display())),
    }
}

fn report(path: &Path, copy: &Image, changes: &Changes) -> String {
    let mut lines = vec![path.display().to_string()];
    if changes.moved {
        lines.push("  segments moved in the file, to where addresses and offsets agree modulo 2 MB".into());
    }
    if changes.aligned > 0 {
        lines.push(format!("  {} aligned to 2 MB", plural(changes.aligned as u64, "segment", "segments")));
    }
    if changes.padded > 0 {
        lines.push(format!("  {} added to code; read-only data in it can be executed now", memory(changes.padded)));
    }
    let (whole, all) = (copy.promotable().len(), copy.windows.len());
    lines.push(format!("  {whole} of {all} regions of 2 MB with code can be superpages"));
    if whole < all {
        lines.push("  the others share their 2 MB with writable data; a linker can part them:".into());
        lines.push(format!("    {LINKER_FLAGS}"));
    }
    lines.push("  loaded to check it; `reach text promote` promotes it".into());
    lines.join("\n") + "\n"
}
