//! Text from outside, for people's eyes: a terminal obeys control characters, and bidirectional ones make text read as another.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A name or text that may come from anybody: a path, the name of a process, a program's arguments.
pub trait Shown {
    /// Returns the text with every character escaped that a terminal could obey, line breaks included: `\u{1b}`, `\n`.
    fn shown(&self) -> Cow<'_, str>;
}

impl Shown for str {
    fn shown(&self) -> Cow<'_, str> {
        escaped(self, obeyed)
    }
}

impl Shown for OsStr {
    fn shown(&self) -> Cow<'_, str> {
        match self.to_string_lossy() {
            Cow::Borrowed(text) => text.shown(),
            Cow::Owned(text) => Cow::Owned(text.shown().into_owned()),
        }
    }
}

impl Shown for Path {
    fn shown(&self) -> Cow<'_, str> {
        self.as_os_str().shown()
    }
}

impl Shown for PathBuf {
    fn shown(&self) -> Cow<'_, str> {
        self.as_os_str().shown()
    }
}

/// Escapes what a terminal could obey in text of several lines. Line breaks stay.
pub fn shown_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\n' && obeyed(c))
}

/// Escapes what a terminal could obey in JSON, whose encoder leaves some of it as it is.
pub fn shown_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(|c| c != '\n' && obeyed(c)) {
        return json.into();
    }
    let mut all = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        // All of them are in the basic plane, and occur in strings only.
        if c != '\n' && obeyed(c) { all += &format!("\\u{:04x}", c as u32) } else { all.push(c) }
    }
    all.into()
}

/// Returns whether a terminal may obey `c` rather than show it, or order the text around it anew.
fn obeyed(c: char) -> bool {
    let bidirectional =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // Separators of lines and paragraphs.
    c.is_control() || bidirectional || matches!(c, '\u{2028}' | '\u{2029}')
}

fn escaped(text: &str, obeyed: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&obeyed) {
        return text.into();
    }
    let mut all = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if obeyed(c) { all.extend(c.escape_default()) } else { all.push(c) }
    }
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn what_a_terminal_obeys_is_escaped_and_other_text_is_not() {
        for plain in ["", "plain", "/usr/bin/naïve – 漢字 ±½ \u{1f600}", "é"] {
            assert!(matches!(plain.shown(), Cow::Borrowed(_)), "{plain}");
        }
        assert_eq!("a\x1b[2Jb\r\n\t\x7f".shown(), r"a\u{1b}[2Jb\r\n\t\u{7f}");
        assert_eq!("\u{9b}31m \u{202e}gpj.exe\u{2066}".shown(), r"\u{9b}31m \u{202e}gpj.exe\u{2066}");
        assert_eq!(shown_lines("one\ntwo\x07\r"), "one\ntwo\\u{7}\\r");
        assert_eq!(Path::new(OsStr::from_bytes(b"/x\xff\x1b]0;t\x07")).shown(), "/x\u{fffd}\\u{1b}]0;t\\u{7}");
    }

    #[test]
    fn json_stays_the_same_value() {
        assert_eq!(shown_json("{\"a\":\"\u{9b}\u{202e}é\"}\n"), "{\"a\":\"\\u009b\\u202eé\"}\n");
    }
}
