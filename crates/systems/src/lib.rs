//! One file per published operating-system design.
