//! The command line of this run, as a shell reads it.

use reach_core::Shown;
use std::ffi::OsString;

/// Returns the command that repeats a run: `reach`, and the arguments after the name of the program.
pub fn line(args: impl Iterator<Item = OsString>) -> String {
    let quoted = args.skip(1).map(|arg| quoted(&arg.to_string_lossy()));
    ["reach".to_owned()].into_iter().chain(quoted).collect::<Vec<_>>().join(" ")
}

/// Quotes a word if a shell would not read it as it is.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=:,./@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    if word.shown() == word {
        return format!("'{}'", word.replace('\'', "'\\''"));
    }
    // A page shows no control characters: bash reads their numbers.
    let mut out = "$'".to_owned();
    for c in word.chars() {
        let mut text = [0; 4];
        match c {
            '\'' | '\\' => out.extend(['\\', c]),
            _ if c.encode_utf8(&mut text).shown() != c.encode_utf8(&mut [0; 4]) as &str => {
                out += &format!("\\u{:04x}", c as u32);
            }
            _ => out.push(c),
        }
    }
    out + "'"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> String {
        line(words.iter().map(OsString::from))
    }

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(of(&["/bin/reach", "compare", "-p", "gups:bytes=64M"]), "reach compare -p gups:bytes=64M");
        assert_eq!(of(&["reach", "", "a b", "it's"]), r"reach '' 'a b' 'it'\''s'");
        assert_eq!(of(&["reach", "a\u{1b}\\'\n"]), r"reach $'a\u001b\\\'\u000a'");
    }

    #[test]
    fn bash_reads_the_same_words() {
        let words = ["a b", "it's", "$HOME `x` \"", "a\u{1b}\\'\n\u{202e}", "*", "</script>"];
        let script = of(&[&["reach"], &words[..]].concat()).replacen("reach", "printf '%s\\0'", 1);
        let output = std::process::Command::new("bash").args(["-c", &script]).env("LC_ALL", "C.UTF-8").output();
        let Ok(output) = output else { return eprintln!("skipped: no bash") };
        let read = String::from_utf8(output.stdout).unwrap();
        assert_eq!(read.split_terminator('\0').collect::<Vec<_>>(), words);
    }
}
