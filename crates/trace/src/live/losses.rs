//! What a capture has lost.

/// The most losses that are kept.
const MAX_LOSSES: usize = 100;
/// The most characters of a loss. Its text may come from the program.
const MAX_CHARACTERS: usize = 1000;

/// What the program did to the shared memory, where the reader finds something that no plugin writes.
pub(super) const OVERWRITTEN: &str = "the program has overwritten the memory of the capture";

/// What was lost, each kind once.
#[derive(Default)]
pub(super) struct Losses(Vec<String>);

impl Losses {
    /// Adds a loss, unless it is known.
    pub(super) fn add(&mut self, text: impl Into<String>) {
        let mut text = text.into();
        if let Some((end, _)) = text.char_indices().nth(MAX_CHARACTERS) {
            text.truncate(end);
            text.push('…');
        }
        match self.0.len() {
            MAX_LOSSES => self.0.push("more was lost than is listed".into()),
            0..MAX_LOSSES if !self.0.contains(&text) => self.0.push(text),
            _ => {}
        }
    }

    /// Returns all losses.
    pub(super) fn all(&self) -> &[String] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_listed_once_and_are_bounded() {
        let mut losses = Losses::default();
        for n in 0..10_000 {
            losses.add(format!("{} {}", n % 2000, "é".repeat(5000)));
            losses.add("x");
        }
        assert_eq!(losses.all().len(), MAX_LOSSES + 1);
        assert!(losses.all().iter().all(|text| text.chars().count() <= MAX_CHARACTERS + 1));
        assert_eq!(losses.all().iter().filter(|text| *text == "x").count(), 1);
    }
}
