//! What a trace says about itself.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Facts about a capture, written as JSON into the file's header. Nothing in it changes what a simulation does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// What to call the program in results.
    pub program: String,
    /// The command line.
    pub command: Vec<String>,
    /// The machine that the program ran on.
    pub host: String,
    /// What captured or converted it, with its version.
    pub tool: String,
    /// Anything else.
    pub other: BTreeMap<String, String>,
}
