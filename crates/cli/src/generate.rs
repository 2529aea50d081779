//! `reach generate`: writes manual pages and completions from the definition of the command line.

use crate::args::Cli;
use crate::args::catalog::GenerateVerb;
use crate::failure::{Failure, VerbResult};
use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;

/// Writes the files.
pub fn generate(verb: GenerateVerb) -> VerbResult {
    let (folder, man) = match &verb {
        GenerateVerb::Guardian => {
            let restored = reach_live::settings::guard();
            return restored.map(|()| 0).map_err(|why| Failure::Failed(format!("a setting was not restored: {why}")));
        }
        GenerateVerb::Fragmenter => {
            return reach_live::fragmented::break_up().map(|()| 0).map_err(Failure::failed);
        }
        GenerateVerb::Man { folder } => (folder, true),
        GenerateVerb::Completions { folder } => (folder, false),
    };
    let failed = |error| Failure::writing(folder, error);
    std::fs::create_dir_all(folder).map_err(failed)?;
    if man {
        clap_mangen::generate_to(Cli::command(), folder).map_err(failed)?;
        return Ok(0);
    }
    for &shell in Shell::value_variants() {
        clap_complete::generate_to(shell, &mut Cli::command(), "reach", folder).map_err(failed)?;
    }
    Ok(0)
}
