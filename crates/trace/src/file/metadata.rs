//! Facts that a recorder stores with a trace.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Facts about a capture, stored as JSON in the file header. They do not affect simulations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// The name of the program in results.
    pub program: String,
    /// The command line.
    pub command: Vec<String>,
    /// The computer that the program ran on.
    pub host: String,
    /// The tool that captured or converted the program, with its version.
    pub tool: String,
    /// Other facts, by name.
    pub other: BTreeMap<String, String>,
}
