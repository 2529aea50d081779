//! Replacement policies that know what a walk is for (Chasapis et al., ASPLOS 2025), or which control flow came before a use
//! (Mirbagher-Ajorpaz et al., MICRO 2020).

/// Replacement policies that a system has in place of the machine's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReplacementOptions {
    /// The last level of TLBs keeps translations of instructions longer than those of data (iTP).
    pub instructions: bool,
    /// The second-level data cache keeps page-table entries of data longer than other lines (xPTP).
    pub page_tables: bool,
    /// The last level of TLBs replaces first what such signatures predict dead (CHiRP), and not as `instructions` says.
    pub reuse: Option<ReuseSignature>,
}

/// The parts of a signature by which reuse is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReuseSignature {
    /// The instruction, the path of instructions before it, and the branches before it.
    ControlFlow,
    /// The instruction alone.
    Instruction,
}
