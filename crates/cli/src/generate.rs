//! `reach generate`: writes manual pages, completions and reference pages from the program's own definitions.

mod reference;

use crate::args::Cli;
use crate::args::catalog::GenerateVerb;
use crate::failure::{Failure, VerbResult};
use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;

/// Writes the files.
pub fn generate(verb: GenerateVerb) -> VerbResult {
    let folder = match &verb {
        GenerateVerb::Guardian => {
            let restored = reach_live::settings::guard();
            return restored.map(|()| 0).map_err(|why| Failure::Failed(format!("a setting was not restored: {why}")));
        }
        GenerateVerb::Fragmenter => {
            return reach_live::fragmented::break_up().map(|()| 0).map_err(Failure::failed);
        }
        GenerateVerb::Man { folder } | GenerateVerb::Completions { folder } | GenerateVerb::Reference { folder } => {
            folder
        }
    };
    let failed = |error| Failure::writing(folder, error);
    std::fs::create_dir_all(folder).map_err(failed)?;
    match verb {
        GenerateVerb::Man { .. } => clap_mangen::generate_to(Cli::command(), folder).map_err(failed)?,
        GenerateVerb::Reference { .. } => {
            for (name, text) in reference::pages() {
                std::fs::write(folder.join(name), text).map_err(failed)?;
            }
        }
        _ => {
            for &shell in Shell::value_variants() {
                clap_complete::generate_to(shell, &mut Cli::command(), "reach", folder).map_err(failed)?;
            }
        }
    }
    Ok(0)
}
