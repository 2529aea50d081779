//! Replacement policies that know what a walk is for (Chasapis et al., ASPLOS 2025).

/// Replacement policies that a system has in place of the machine's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReplacementOptions {
    /// The last level of TLBs keeps translations of instructions longer than those of data (iTP).
    pub instructions: bool,
    /// The second-level data cache keeps page-table entries of data longer than other lines (xPTP).
    pub page_tables: bool,
}
