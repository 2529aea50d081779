//! Where probed machine files lie: `reach/PROCESSOR.toml` in the user's data folder, `$XDG_DATA_HOME` or `~/.local/share`.

use crate::args::catalog::ProbeArgs;
use crate::failure::{Failure, print_error};
use crate::output::Output;
use reach_core::Shown;
use reach_lab::machine;
use reach_live::held::HeldFile;
use reach_probe::file::NAME;
use std::path::PathBuf;
use std::{env, fs};

/// Returns the name of this computer's processor.
pub fn processor() -> Result<String, Failure> {
    let unknown = "/proc/cpuinfo does not identify this processor, so that no machine file can name it";
    machine::host_processor().ok_or_else(|| Failure::Failed(unknown.into()))
}

/// Returns the path of the machine file of this computer's processor.
fn path() -> Result<PathBuf, Failure> {
    // The vendor is text from the kernel; a path must not depend on its being a plain word.
    let name: String =
        processor()?.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    let folder = env::var_os("XDG_DATA_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".local/share")));
    let nowhere = "neither XDG_DATA_HOME nor HOME is set; name the machine file with -o";
    Ok(folder.ok_or_else(|| Failure::Failed(nowhere.into()))?.join("reach").join(format!("{name}.toml")))
}

/// Opens the file to write: that of `args`, or the one of this computer's processor, whose folder it makes.
///
/// Root writes a file of its own choice only where nobody else can lead it elsewhere.
pub fn create(args: &ProbeArgs) -> Result<(PathBuf, Output), Failure> {
    if let Some(path) = &args.output {
        return Ok((path.clone(), Output::create(path, args.force)?));
    }
    let path = path()?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| Failure::writing(folder, error))?;
        HeldFile::open(folder).and_then(|folder| folder.require_trust()).map_err(Failure::failed)?;
    }
    let file = Output::create(&path, true)?;
    Ok((path, file))
}

/// Returns the machine file of this processor; `None` where there is none.
///
/// # Errors
/// When root must not take the file, because others can write it.
fn trusted() -> Result<Option<PathBuf>, String> {
    let Some(path) = path().ok().filter(|path| path.is_file()) else { return Ok(None) };
    let trust = HeldFile::regular(&path).and_then(|file| file.require_trust());
    trust.map(|()| Some(path.clone())).map_err(|error| format!("{}: is not used: {error}", path.shown()))
}

/// Replaces `this-computer` in the specification of a machine by the path of its file. All others are returned as they are.
///
/// # Errors
/// When there is no such file, root must not take it, or its path is not UTF-8.
pub fn located(spec: &str) -> Result<String, String> {
    let Some(changes) = spec.strip_prefix(NAME).filter(|changes| changes.is_empty() || changes.starts_with(':')) else {
        return Ok(spec.to_owned());
    };
    let Some(path) = trusted()? else {
        let why =
            path().map_or_else(|_| "no file is kept for it".into(), |path| format!("{} is missing", path.shown()));
        return Err(format!("this computer was not measured ({why}); run `reach machine probe`"));
    };
    let file = path.to_str().ok_or_else(|| format!("{} is not UTF-8", path.shown()))?;
    Ok(format!("{file}{changes}"))
}

/// Returns the machine that was probed on this processor, with its path. `None`: there is no file, or it cannot be used; then
/// standard error says why.
///
/// Root takes a file only where nobody else can write it.
pub fn probed() -> Option<(PathBuf, machine::Resolved)> {
    let path = trusted().unwrap_or_else(|why| {
        print_error(why);
        None
    })?;
    let spec = path.to_str()?.to_owned();
    match machine::resolve(&spec) {
        Ok(machine) => Some((path, machine)),
        Err(error) => {
            print_error(format!("{}: is not used: {error}", path.shown()));
            None
        }
    }
}
