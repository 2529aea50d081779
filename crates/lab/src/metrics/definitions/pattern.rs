//! Names with placeholders, and globs.

/// Values of a placeholder.
#[derive(Clone, Copy)]
enum Values {
    /// A page size: `4K`, `2M`, `1G`.
    Size,
    /// A whole number.
    Number,
    /// A name from a machine file.
    Name,
    /// One of these words.
    Words(&'static [&'static str]),
    /// `start`, `end`, or `@` and a whole number.
    Time,
}

/// All placeholders, each with what it stands for.
const PLACEHOLDERS: [(&str, Values, &str); 7] = [
    ("<size>", Values::Size, "a page size: `4K`, `64K`, `2M`, `1G`"),
    ("<n>", Values::Number, "a whole number"),
    ("<cache>", Values::Name, "a cache's name in the machine file, such as `l1d`"),
    ("<array>", Values::Name, "a TLB array's name in the machine file, such as `l2`"),
    ("<kind>", Values::Words(&["fetch", "load", "store", "walk"]), "`fetch`, `load`, `store` or `walk`"),
    (
        "<operation>",
        Values::Words(&[
            "look_up", "reserve", "update", "preempt", "split", "join", "promote", "demote", "emulate", "scan",
        ]),
        "an operation of the list above its table",
    ),
    ("<when>", Values::Time, "`start` or `end` of a process, or `@` and milliseconds since boot"),
];

/// Returns each placeholder with what it stands for.
pub(super) fn placeholders() -> impl Iterator<Item = (&'static str, &'static str)> {
    PLACEHOLDERS.iter().map(|(name, _, meaning)| (*name, *meaning))
}

impl Values {
    fn has(self, text: &str) -> bool {
        let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match self {
            Values::Size => text.strip_suffix(['B', 'K', 'M', 'G', 'T']).is_some_and(number),
            Values::Number => number(text),
            Values::Name => {
                let in_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
                !text.is_empty() && text.bytes().all(in_name)
            }
            Values::Words(words) => words.contains(&text),
            Values::Time => matches!(text, "start" | "end") || text.strip_prefix('@').is_some_and(number),
        }
    }
}

/// Returns whether `name` follows from `pattern` when each placeholder gets one of its values.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let Some(at) = pattern.find('<') else { return pattern == name };
    let (literal, rest) = pattern.split_at(at);
    let Some(name) = name.strip_prefix(literal) else { return false };
    let Some((placeholder, values, _)) = PLACEHOLDERS.iter().find(|(known, ..)| rest.starts_with(known)) else {
        return false;
    };
    let rest = &rest[placeholder.len()..];
    let ends = name.char_indices().map(|(at, c)| at + c.len_utf8());
    ends.into_iter().any(|end| values.has(&name[..end]) && matches(rest, &name[end..]))
}

/// Stands for any characters but full stops in a glob: what a placeholder can become.
pub(super) const PART: char = '\u{1}';

/// Makes a glob of `pattern`: [`PART`] in place of placeholders.
pub(super) fn as_glob(pattern: &str) -> String {
    let part = PART.to_string();
    PLACEHOLDERS.iter().fold(pattern.to_owned(), |glob, (placeholder, ..)| glob.replace(placeholder, &part))
}

/// Returns whether some text matches both globs, in which `*` stands for any characters and [`PART`] for any but full stops.
pub(super) fn intersects(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let is_wild = |c: char| matches!(c, '*' | PART);
    let takes = |wild: char, c: char| wild == '*' || c != '.';
    // `row[j]` says whether the rests `a[i..]` and `b[j..]` intersect, from the last i to the first.
    let mut row = vec![false; b.len() + 1];
    for i in (0..=a.len()).rev() {
        let below = std::mem::replace(&mut row, vec![false; b.len() + 1]);
        for j in (0..=b.len()).rev() {
            row[j] = match (a.get(i), b.get(j)) {
                (None, None) => true,
                (Some(&x), Some(&y)) if is_wild(x) && is_wild(y) => below[j] || row[j + 1],
                (Some(&x), y) if is_wild(x) => below[j] || y.is_some_and(|&y| takes(x, y) && row[j + 1]),
                (x, Some(&y)) if is_wild(y) => row[j + 1] || x.is_some_and(|&x| takes(y, x) && below[j]),
                (Some(x), Some(y)) => x == y && below[j + 1],
                (None, Some(_)) | (Some(_), None) => false,
            };
        }
    }
    row[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_matches_its_values_only() {
        for (pattern, name, expected) in [
            ("walks", "walks", true),
            ("walks", "walk", false),
            ("superpages.<size>", "superpages.2M", true),
            ("superpages.<size>", "superpages.", false),
            ("superpages.<size>", "superpages.M", false),
            ("cache.<cache>.misses", "cache.l1d.misses", true),
            ("cache.<cache>.misses", "cache.l1d.walk.misses", false),
            ("memory.<kind>.cycles", "memory.walk.cycles", true),
            ("memory.<kind>.cycles", "memory.free.cycles", false),
            ("memory.free.<when>", "memory.free.@1000", true),
            ("memory.free.<when>", "memory.free.end", true),
            ("memory.free.<when>", "memory.free.@", false),
            ("curve.<array>.misses@<n>x<n>", "curve.l2_1g.misses@64x4", true),
            ("curve.<array>.misses@<n>x<n>", "curve.l2.misses@64", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn globs_intersect_if_one_text_matches_both() {
        for (a, b, expected) in [
            ("wcpi*", "wcpi.misses_per_access", true),
            ("*.l1d.*", "cache.\u{1}.misses", true),
            ("cache.l1d.m*", "cache.\u{1}.misses", true),
            ("cache.l1d.x*", "cache.\u{1}.misses", false),
            ("cache*misses", "cache.\u{1}.misses", true),
            ("cache.l1d.\u{1}", "cache.\u{1}.misses", true),
            ("*", "walks", true),
            ("walk", "walks", false),
            ("", "*", true),
        ] {
            assert_eq!(intersects(a, b), expected, "{a} {b}");
            assert_eq!(intersects(b, a), expected, "{b} {a}");
        }
    }
}
