//! Where the time of an experiment goes: who waits for whom.

use std::ops::Add;
use std::time::Duration;

/// How the time of an experiment was spent, all passes over the program together.
///
/// One thread reads the program and prepares it for all simulations; the others simulate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// The reading thread waited for a live program.
    pub waiting_for_program: Duration,
    /// It read: decoded, cut into intervals, and kept for another pass.
    pub reading: Duration,
    /// It found out what all simulations share: look-ups, last uses of lines and pages, branches.
    pub preparing: Duration,
    /// It waited until simulations had room. Zero where it simulates itself.
    pub waiting_for_simulations: Duration,
    /// In simulations, summed over threads.
    pub simulating: Duration,
    /// The threads that simulate. All of them do when the program has been read, and so does the reading thread.
    pub threads: usize,
}

impl Add for Occupancy {
    type Output = Occupancy;

    fn add(self, other: Occupancy) -> Occupancy {
        Occupancy {
            waiting_for_program: self.waiting_for_program + other.waiting_for_program,
            reading: self.reading + other.reading,
            preparing: self.preparing + other.preparing,
            waiting_for_simulations: self.waiting_for_simulations + other.waiting_for_simulations,
            simulating: self.simulating + other.simulating,
            threads: self.threads.max(other.threads),
        }
    }
}
