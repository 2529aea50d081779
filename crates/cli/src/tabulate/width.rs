//! The width of output for people.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Width in characters where it is not known.
const DEFAULT: usize = 80;
/// Widths that tables are laid out for: a narrower terminal wraps them, a wider one leaves the rest empty.
const RANGE: std::ops::RangeInclusive<usize> = 40..=200;

static FOR_A_FILE: AtomicBool = AtomicBool::new(false);

/// Says that the output goes to a file, so that the terminal's width does not matter. Call before the first layout.
pub fn for_a_file() {
    FOR_A_FILE.store(true, Ordering::Relaxed);
}

/// Returns the width in characters, 40 to 200: `COLUMNS` if that is set, or else the width of the terminal if standard output
/// is one, or else 80.
pub fn width() -> usize {
    static WIDTH: OnceLock<usize> = OnceLock::new();
    *WIDTH.get_or_init(|| {
        let columns = std::env::var("COLUMNS").ok();
        let terminal = || {
            let (width, _) = terminal_size::terminal_size_of(std::io::stdout())?;
            Some(usize::from(width.0))
        };
        let terminal = if FOR_A_FILE.load(Ordering::Relaxed) { None } else { terminal() };
        chosen(columns.as_deref(), terminal)
    })
}

/// Returns the width for a value of `COLUMNS` and the width of the terminal, if there are any.
fn chosen(columns: Option<&str>, terminal: Option<usize>) -> usize {
    let columns = columns.and_then(|text| text.trim().parse().ok()).filter(|&width: &usize| width > 0);
    let width = columns.or(terminal.filter(|&width| width > 0)).unwrap_or(DEFAULT);
    width.clamp(*RANGE.start(), *RANGE.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_precede_the_terminal_which_precedes_80() {
        assert_eq!(chosen(None, None), 80);
        assert_eq!(chosen(None, Some(132)), 132);
        assert_eq!(chosen(Some("100"), Some(132)), 100);
        assert_eq!(chosen(Some("wide"), Some(132)), 132);
        assert_eq!([chosen(Some("0"), None), chosen(None, Some(0))], [80, 80]);
        assert_eq!([chosen(Some("10"), None), chosen(None, Some(500))], [40, 200]);
    }
}
