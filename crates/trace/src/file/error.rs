//! Damage in a part of a file.

/// Says what is damaged. The container adds the file and the place.
#[derive(Debug)]
pub(super) struct Damage(pub(super) &'static str);
