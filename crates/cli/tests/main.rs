//! Tests in one program: each program of its own would compile what they share once more.
//! Those that change settings of the computer are programs of their own, which run one after the other.

mod advising;
#[path = "common/browser.rs"]
mod browser;
mod budget;
mod common;
mod compared;
mod compiled;
mod endings;
mod errors;
mod help;
mod hostile;
mod incomplete;
mod metrics;
mod not_as_asked;
mod owners;
mod papers;
mod pictures;
mod places;
mod results;
mod sampling;
mod streams;
mod validate;
mod widths;
