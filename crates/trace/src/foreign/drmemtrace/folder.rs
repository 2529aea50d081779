//! Folders of traces: one file for each thread or core.

use crate::TraceError;
use reach_core::Shown;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The most files of a folder.
const MAX_FILES: usize = 1 << 16;

/// What the names of traces end with.
const ENDINGS: [&str; 7] = [".trace", ".gz", ".zip", ".sz", ".xz", ".zst", ".memtrace"];

/// Files that the tracer writes beside the traces: in which order threads ran, on which processors.
const SCHEDULES: [&str; 2] = ["cpu_schedule.", "serial_schedule."];

/// A folder of traces.
pub struct Folder {
    /// The name of the program in results.
    pub name: String,
    /// The traces, in the order of their names.
    pub files: Vec<PathBuf>,
}

impl Folder {
    /// Finds the traces in `path`, or in its folder `trace`, which the tracer makes.
    ///
    /// Fails where there are none, and says why if the folder is one of those that hold no traces yet.
    pub fn find(path: &Path) -> Result<Folder, TraceError> {
        let inner = path.join("trace");
        let folder = if inner.is_dir() { &inner } else { path };
        let is_called_trace = path.file_name().is_some_and(|name| name == "trace");
        let named = path.parent().filter(|parent| is_called_trace && parent.file_name().is_some()).unwrap_or(path);
        let (files, others) = list(folder).map_err(|source| TraceError::Io { path: folder.to_owned(), source })?;
        let invalid = |what: String| Err(TraceError::Invalid(format!("{}: {what}", folder.shown())));
        let has = |start: &str| others.iter().any(|name| name.starts_with(start));
        match files.len() {
            0 if has("window.") => {
                invalid("a folder of windows, each a trace of its own; give one of its folders".to_owned())
            }
            0 if has("raw") || others.iter().any(|name| name.contains(".raw")) => {
                let todo = "make it into a trace with DynamoRIO's `drraw2trace -indir`";
                invalid(format!("raw output of drmemtrace, which is no trace yet; {todo}"))
            }
            0 => {
                let known = "files of drmemtrace, such as NAME.TID.trace.zip";
                invalid(format!("a folder without traces; expected {known}"))
            }
            n if n > MAX_FILES => invalid(format!("{n} files; expected at most {MAX_FILES}")),
            _ => Ok(Folder { name: crate::name_of(named), files }),
        }
    }
}

/// Returns the traces in `folder`, in the order of their names, and the names of what else is there.
fn list(folder: &Path) -> io::Result<(Vec<PathBuf>, Vec<String>)> {
    let (mut files, mut others) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder)?.take(2 * MAX_FILES) {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_trace = ENDINGS.iter().any(|ending| name.ends_with(ending))
            && !name.contains(".raw")
            && !SCHEDULES.iter().any(|start| name.starts_with(start));
        if is_trace && path.is_file() {
            files.push(path);
        } else {
            others.push(name);
        }
    }
    files.sort();
    Ok((files, others))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a folder with empty files of these names. A name that ends with a slash is that of a folder.
    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if name.ends_with('/') { fs::create_dir_all(path).unwrap() } else { fs::write(path, "").unwrap() }
        }
        folder
    }

    #[test]
    fn traces_are_found_in_the_folder_or_the_one_that_the_tracer_makes() {
        let names =
            ["b.1.trace.zip", "a.2.trace.gz", "c.memtrace.sz", "cpu_schedule.bin.zip", "serial_schedule.bin.gz"];
        let others = ["funclist.log", "modules.log", "v2p.textproto"];
        let plain = folder(&[&names[..], &others].concat());
        let nested = folder(&["app/raw/app.1.raw.gz", "app/trace/app.1.trace.zip"]);
        let found = Folder::find(plain.path()).unwrap();
        let found: Vec<_> = found.files.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(found, ["a.2.trace.gz", "b.1.trace.zip", "c.memtrace.sz"]);
        for path in ["app", "app/trace"] {
            let found = Folder::find(&nested.path().join(path)).unwrap();
            assert_eq!((found.name.as_str(), found.files.len()), ("app", 1));
        }
    }

    #[test]
    fn folders_without_traces_are_refused_with_the_reason() {
        for (names, reason) in [
            (&[][..], "a folder without traces"),
            (&["notes.txt"], "a folder without traces"),
            (&["raw/app.1.raw.gz"], "raw output of drmemtrace"),
            (&["app.1.raw.gz"], "raw output of drmemtrace"),
            (&["window.0000/a.trace.zip"], "a folder of windows"),
        ] {
            let folder = folder(names);
            let error = Folder::find(folder.path()).err().expect(reason).to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
