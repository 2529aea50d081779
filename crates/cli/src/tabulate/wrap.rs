//! Breaking text into lines between words.

use unicode_width::UnicodeWidthStr;

/// Characters after which a word longer than a line may be broken: between the parts of a path, an option or a list.
pub const BREAKS: [char; 9] = ['/', ',', ':', '=', '+', '-', '_', '.', '@'];

/// Returns the columns that `text` takes on a terminal.
pub fn length(text: &str) -> usize {
    text.width()
}

/// Breaks `text` into lines of at most `width` columns, between words. Line breaks in `text` stay; an indented line continues
/// with the same indentation. A word longer than a line is broken after punctuation, and only if there is none anywhere.
/// Returns at least one line.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let words = line.trim_start();
        let indent = line[..line.len() - words.len()].to_owned();
        // Text that leaves no room for its indentation loses it.
        let indent = if length(&indent) * 2 > width { String::new() } else { indent };
        fill(words, &indent, width, &mut lines);
    }
    lines
}

/// Adds the lines of one paragraph.
fn fill(words: &str, indent: &str, width: usize, lines: &mut Vec<String>) {
    let room = width.saturating_sub(length(indent)).max(1);
    let mut line = String::new();
    // Spaces between words are kept within a line: columns of facts have two.
    let mut gap = "";
    let mut rest = words;
    while !rest.is_empty() {
        let end = rest.find(' ').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let next = after.trim_start_matches(' ');
        if !line.is_empty() && length(&line) + gap.len() + length(word) > room {
            lines.push(format!("{indent}{line}"));
            line.clear();
        } else {
            line += gap;
        }
        let mut parts = split(word, room);
        let last = parts.pop().unwrap_or_default();
        for part in parts {
            lines.push(format!("{indent}{part}"));
        }
        line += &last;
        gap = &after[..after.len() - next.len()];
        rest = next;
    }
    lines.push(format!("{indent}{line}").trim_end().to_owned());
}

/// Splits a word into parts of at most `room` columns: one, if it fits.
fn split(word: &str, room: usize) -> Vec<String> {
    let mut parts = vec![String::new()];
    if length(word) <= room {
        return vec![word.to_owned()];
    }
    for piece in word.split_inclusive(BREAKS) {
        let last = parts.last_mut().expect("there is always a part");
        if length(last) + length(piece) <= room {
            *last += piece;
            continue;
        }
        if !last.is_empty() {
            parts.push(String::new());
        }
        for c in piece.chars() {
            let last = parts.last_mut().expect("there is always a part");
            if length(last) + length(c.encode_utf8(&mut [0; 4])) > room {
                parts.push(c.to_string());
            } else {
                last.push(c);
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_keep_their_indentation() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("  one two three", 7), ["  one", "  two", "  three"]);
        assert_eq!(wrapped("above\nbelow it", 20), ["above", "below it"]);
        assert_eq!(wrapped("", 10), [""]);
        assert_eq!(wrapped("a  b", 10), ["a  b"]);
    }

    #[test]
    fn only_words_longer_than_a_line_are_broken_and_then_after_punctuation() {
        assert_eq!(wrapped("see /usr/lib/x86/libc.so now", 12), ["see", "/usr/lib/", "x86/libc.so", "now"]);
        assert_eq!(wrapped("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert!(wrapped("é".repeat(30).as_str(), 7).iter().all(|line| length(line) <= 7));
    }
}
