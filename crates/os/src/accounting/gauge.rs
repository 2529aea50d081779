//! A quantity that rises and falls.

/// A quantity that rises and falls, with its peak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauge {
    /// Present value.
    pub current: u64,
    /// Largest value so far.
    pub peak: u64,
}

impl Gauge {
    /// Adds `n`.
    pub fn rise(&mut self, n: u64) {
        self.current += n;
        self.peak = self.peak.max(self.current);
    }

    /// Subtracts `n`.
    pub fn fall(&mut self, n: u64) {
        self.current -= n;
    }

    /// Sets the present value.
    pub fn set(&mut self, n: u64) {
        self.current = n;
        self.peak = self.peak.max(n);
    }
}
