//! The state of a file: a few bytes after the header that the writer rewrites in place when it ends.
//!
//! A file that was cut has lost its trailer, and a recorder that was killed has written none. The state tells one from the
//! other, and how much is missing.

use super::bytes::Cursor;
use super::checksum::{checksum, is_intact};
use super::error::Damage;

const STATE_MAGIC: [u8; 4] = *b"Stat";
/// Bytes of the state: magic, kind, references, bytes of the file, checksum.
pub(super) const STATE: usize = 32;

/// Stands for an unknown number of references.
const UNKNOWN: u64 = u64::MAX;

/// How far the writer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The output cannot be rewritten, so this says nothing.
    Streamed,
    /// The writer has not ended, or was killed.
    Open,
    /// The writer has finished a file of `bytes` bytes that holds `refs` references.
    Finished { refs: u64, bytes: u64 },
    /// The output failed; the writer was given `refs` references, or an unknown number.
    Failed { refs: Option<u64> },
}

impl State {
    pub fn encode(self) -> [u8; STATE] {
        let (kind, refs, bytes) = match self {
            State::Streamed => (0u32, 0, 0),
            State::Open => (1, 0, 0),
            State::Finished { refs, bytes } => (2, refs, bytes),
            State::Failed { refs } => (3, refs.unwrap_or(UNKNOWN), 0),
        };
        let mut out = Vec::with_capacity(STATE);
        out.extend(STATE_MAGIC);
        out.extend(kind.to_le_bytes());
        out.extend(refs.to_le_bytes());
        out.extend(bytes.to_le_bytes());
        out.extend(checksum(&out).to_le_bytes());
        out.try_into().expect("the fields have this length")
    }

    /// Reads and verifies a state.
    pub fn decode(bytes: &[u8; STATE]) -> Result<State, Damage> {
        let mut cursor = Cursor(bytes);
        let magic = cursor.take(4)?;
        let (kind, refs, bytes_of_file, sum) = (cursor.u32()?, cursor.u64()?, cursor.u64()?, cursor.u64()?);
        if magic != STATE_MAGIC || !is_intact(&bytes[..STATE - 8], sum) {
            return Err(Damage("the state of the file has a wrong checksum"));
        }
        match (kind, refs, bytes_of_file) {
            (0, 0, 0) => Ok(State::Streamed),
            (1, 0, 0) => Ok(State::Open),
            (2, refs, bytes) => Ok(State::Finished { refs, bytes }),
            (3, refs, 0) => Ok(State::Failed { refs: (refs != UNKNOWN).then_some(refs) }),
            _ => Err(Damage("the file is in a state that does not exist")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_of_a_state_is_noticed() {
        for state in [
            State::Streamed,
            State::Open,
            State::Finished { refs: 5, bytes: 1000 },
            State::Failed { refs: Some(7) },
            State::Failed { refs: None },
        ] {
            let bytes = state.encode();
            assert_eq!(State::decode(&bytes).unwrap(), state);
            for bit in 0..8 * STATE {
                let mut damaged = bytes;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(State::decode(&damaged).is_err(), "{state:?} bit {bit}");
            }
        }
    }
}
