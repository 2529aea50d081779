//! The files of a paper's folder.

use reach_core::Shown;
use reach_trace::text;
use std::path::PathBuf;

/// Texts by file name.
pub(crate) type Texts = &'static [(&'static str, &'static str)];

/// Where a paper's files are.
#[derive(Clone, Debug)]
pub(crate) enum PaperFiles {
    /// In the program.
    Embedded(Texts),
    /// In a folder.
    Folder(PathBuf),
}

impl PaperFiles {
    /// Returns the text of the file `name`.
    pub fn text(&self, name: &str) -> Result<String, String> {
        match self {
            PaperFiles::Folder(folder) => {
                let path = folder.join(name);
                text::read(&path, text::MAX_BYTES).map_err(|error| format!("{}: {error}", path.shown()))
            }
            PaperFiles::Embedded(files) => match files.iter().find(|(file, _)| *file == name) {
                Some((_, text)) => Ok((*text).to_owned()),
                None => Err(format!("there is no file {name:?}; name one that comes with the paper")),
            },
        }
    }
}
