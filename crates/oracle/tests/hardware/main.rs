//! `reach_hardware` against its twin. `REACH_CASES` sets how many random cases each property is tried with.

mod differential;
mod lockstep;
mod machines;
mod program;
mod system;
