//! `reach generate`: writes manual pages and completions from the definition of the command line.

use crate::args::Cli;
use crate::args::catalog::GenerateVerb;
use crate::failure::{Failure, VerbResult};
use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;

/// Writes the files.
pub fn generate(verb: GenerateVerb) -> VerbResult {
    let (GenerateVerb::Man { folder } | GenerateVerb::Completions { folder }) = &verb;
    let failed = |error| Failure::writing(folder, error);
    std::fs::create_dir_all(folder).map_err(failed)?;
    match &verb {
        GenerateVerb::Man { folder } => clap_mangen::generate_to(Cli::command(), folder).map_err(failed)?,
        GenerateVerb::Completions { folder } => {
            for &shell in Shell::value_variants() {
                clap_complete::generate_to(shell, &mut Cli::command(), "reach", folder).map_err(failed)?;
            }
        }
    }
    Ok(0)
}
