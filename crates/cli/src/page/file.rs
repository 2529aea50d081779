//! The file of a page. It appears when it is whole: readers never see a part of it, and a run that fails leaves none.

use super::Content;
use crate::failure::Failure;
use crate::output::{Output, refuse_to_replace};
use std::fs::Permissions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};

/// The file that `--html` names.
pub enum HtmlFile {
    /// A regular file, which another one replaces.
    Regular(PathBuf),
    /// A device or a pipe, which is written to.
    Special(Output),
}

impl HtmlFile {
    /// Checks that the file can be written, so that an unwritable one fails before the simulation. `None` if none is named.
    ///
    /// # Errors
    /// If the file exists and may not be replaced, or cannot be written.
    pub fn open(path: &Option<PathBuf>, force: bool) -> Result<Option<HtmlFile>, Failure> {
        let Some(path) = path else { return Ok(None) };
        refuse_to_replace(path, force)?;
        if path.is_dir() {
            return Err(Failure::writing(path, io::Error::from(ErrorKind::IsADirectory)));
        }
        if path.exists() && !path.is_file() {
            return Ok(Some(HtmlFile::Special(Output::create(path, force)?)));
        }
        // Links stay: the file that they name is replaced.
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        beside(&path).map_err(|error| Failure::writing(&path, error))?;
        Ok(Some(HtmlFile::Regular(path)))
    }

    /// Writes the page.
    pub fn write(self, content: &Content) -> Result<(), Failure> {
        let page = content.html();
        let path = match self {
            HtmlFile::Special(output) => return output.write(&page),
            HtmlFile::Regular(path) => path,
        };
        let replaced = || {
            let mut file = beside(&path)?;
            file.write_all(page.as_bytes())?;
            if let Ok(old) = std::fs::metadata(&path) {
                file.as_file().set_permissions(old.permissions())?;
            }
            file.persist(&path).map_err(|error| error.error)
        };
        replaced().map(|_| ()).map_err(|error| Failure::writing(&path, error))
    }
}

/// Creates a file in the folder of `path`, with the rights of a new one.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Builder::new()
        .prefix(".reach-")
        .suffix(".html")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        // The name of the temporary file would say nothing.
        .map_err(|error| io::Error::from(error.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_replaces_the_file_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a.html"), folder.path().join("link.html"));
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(HtmlFile::open(&Some(link.clone()), false).is_err(), "it exists");
        let html = HtmlFile::open(&Some(link.clone()), true).unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "old", "until there are results");
        html.write(&Content { title: "new".into(), ..Content::default() }).unwrap();
        assert!(std::fs::read_to_string(&file).unwrap().contains("<h1>new</h1>"));
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("none/a.html")] {
            assert!(HtmlFile::open(&Some(path), true).is_err());
        }
        assert!(HtmlFile::open(&Some("/dev/null".into()), false).unwrap().is_some());
    }
}
