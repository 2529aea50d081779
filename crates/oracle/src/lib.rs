//! Slow, obvious twins of every fast structure, for tests only.
