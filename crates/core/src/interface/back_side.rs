//! Translation behind the last cache (Gupta et al., ISCA 2021): caches hold lines by addresses of an intermediate space, and only what
//! misses in the last one is translated to an address of memory.

/// Options of a translator behind the last cache (Gupta et al., ISCA 2021).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BackSideOptions {
    /// Pages that its own cache of translations holds, fully associative; 0 for none.
    pub entries: u32,
    /// Processor cycles of a look-up there, whether it hits or not.
    pub latency: u32,
}
