//! The verbs that work on this Linux itself: `reach try`, `reach text`, `reach pages` and
//! `reach stat`.

mod align;
mod bench;
mod gain;
mod keep;
mod pages;
mod promote;
mod run;
mod show;
mod stat;
mod trial;

use crate::args::this_linux::TextVerb;
use crate::failure::{Failure, VerbResult};
pub use gain::CODE;
pub use pages::pages;
use reach_core::Shown;
use reach_live::error::LiveError;
pub use stat::stat;
pub use trial::{try_remedies, wanted_remedies};

/// Runs one of the verbs of `reach text`.
pub fn text(verb: TextVerb, quiet: bool) -> VerbResult {
    match verb {
        TextVerb::Show(args) if args.gain => gain::gain(&args, quiet),
        TextVerb::Show(args) => show::show(&args),
        TextVerb::Promote(args) => promote::promote(&args),
        TextVerb::Align(args) => align::align(&args),
        TextVerb::Run(args) => run::run(&args, quiet),
        TextVerb::Keep(args) => keep::keep(&args),
        TextVerb::Bench(args) => bench::bench(&args, quiet),
    }
}

impl From<LiveError> for Failure {
    fn from(error: LiveError) -> Failure {
        Failure::Failed(error.to_string().shown().into_owned())
    }
}
