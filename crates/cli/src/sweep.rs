//! `reach sweep`: executes the Python package, which has the sweeps.

use crate::args::sweep::SweepArgs;
use crate::failure::{Failure, VerbResult};
use crate::units;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The variable by which the command of an installed package names its interpreter.
const PYTHON: &str = "REACH_PYTHON";

/// Runs a sweep. Without the folder of the command in the search path, which may have another `reach`.
const SWEEP: &str = "\
import sys
sys.path[:] = [folder for folder in sys.path if folder]
from reach._sweep_file import main
sys.exit(main(sys.argv[1:]))";

/// Asks for the package.
const ASK: &str = "\
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import reach._sweep_file";

/// Executes Python in place of `reach`. Returns only on failure.
pub fn sweep(args: &SweepArgs, quiet: bool) -> VerbResult {
    let python = std::env::var_os(PYTHON).unwrap_or_else(|| "python3".into());
    let asked = Command::new(&python).args(["-c", ASK]).stdin(Stdio::null()).stderr(Stdio::null()).status();
    if !asked.is_ok_and(|status| status.success()) {
        let package = "pip install 'reach-sim[sweep]', or build the wheel with make python (docs/python.md)";
        return Err(Failure::Failed(format!("sweep needs the Python package of Reach: {package}")));
    }
    let mut command = Command::new(&python);
    command.args(["-c", SWEEP]);
    if let Some(folder) = &args.output {
        command.arg("--output").arg(folder);
    }
    if let Some(workers) = args.workers {
        command.arg("--workers").arg(workers.to_string());
    }
    command.args(quiet.then_some("--quiet")).arg("--").arg(&args.file);
    let error = command.exec();
    Err(Failure::Failed(format!("{}: cannot be executed: {}", python.display(), units::message(&error))))
}
