//! The command line of `reach sweep`.

use super::examples;
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Simulate many programs, machines, systems and settings, on many workers
///
/// A TOML file lists what is simulated (docs/sweeps.md). Results are a data set of Parquet files. Points that it has are not
/// computed again, so that a sweep can be stopped, resumed and extended. Workers are processes on this computer, or those of a
/// cluster that Dask knows: SLURM, PBS, Kubernetes, or a scheduler's address. Needs the Python package (docs/python.md).
#[derive(Args)]
#[command(after_help = examples::SWEEP)]
pub struct SweepArgs {
    /// The TOML file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Folder of the data set, instead of the file's
    #[arg(short, long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,
    /// Number of workers, instead of the file's [default: one per processor, or 2 on a cluster]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub workers: Option<u16>,
}
