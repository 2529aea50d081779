//! Parameters of synthetic programs, and how users write them: `name:key=value,key=value`.

use reach_core::Bytes;
use std::fmt;

/// The values that a parameter accepts. Ranges include both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A size in bytes. The suffixes `K`, `M`, `G` and `T` mean 2^10, 2^20, 2^30 and 2^40.
    Bytes(u64, u64),
    /// A count, with the same suffixes.
    Count(u64, u64),
    /// A share from `0%` to `100%`; decimals are allowed.
    Percent,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Sizes in bytes, separated by `/`.
    BytesList(u64, u64),
    /// Counts, separated by `/`.
    CountList(u64, u64),
}

/// One parameter of a synthetic program.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name, before the `=`.
    pub name: &'static str,
    /// The values that it accepts.
    pub kind: ValueKind,
    /// The default, as a user would write it.
    pub default: &'static str,
    /// The meaning, in one line.
    pub summary: &'static str,
}

/// The seed of every program with random numbers.
pub(super) const SEED: Parameter = Parameter {
    name: "seed",
    kind: ValueKind::Count(0, u64::MAX),
    default: "1",
    summary: "seed of all random numbers; equal seeds give equal references",
};

/// The largest size of a memory area.
pub(super) const MAX_BYTES: u64 = 1 << 40;

/// The largest count of anything.
pub(super) const MAX_COUNT: u64 = 1 << 50;

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ValueKind::Bytes(low, high) => write!(f, "bytes, {} to {}", Bytes(low), Bytes(high)),
            ValueKind::Count(low, u64::MAX) => write!(f, "count, from {low}"),
            ValueKind::Count(low, high) => write!(f, "count, {} to {}", Bytes(low), Bytes(high)),
            ValueKind::Percent => write!(f, "share, 0% to 100%"),
            ValueKind::Word(words) => write!(f, "{}", words.join(" or ")),
            ValueKind::BytesList(low, high) => write!(f, "list of bytes, {} to {} each", Bytes(low), Bytes(high)),
            ValueKind::CountList(low, high) => write!(f, "list of counts, {} to {} each", Bytes(low), Bytes(high)),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(u64),
    Share(f64),
    Word(&'static str),
    List(Vec<u64>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(n) => write!(f, "{}", Bytes(*n)),
            Value::Share(share) => write!(f, "{}%", share * 100.0),
            Value::Word(word) => f.write_str(word),
            Value::List(list) => {
                let words: Vec<String> = list.iter().map(|&n| Bytes(n).to_string()).collect();
                f.write_str(&words.join("/"))
            }
        }
    }
}

fn number(text: &str, low: u64, high: u64) -> Option<u64> {
    let shift = match text.as_bytes().last()?.to_ascii_uppercase() {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        b'T' => 40,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let n = digits.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    (low..=high).contains(&n).then_some(n)
}

fn list(text: &str, low: u64, high: u64) -> Option<Vec<u64>> {
    text.split('/').map(|word| number(word, low, high)).collect()
}

fn share(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%')?.parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

impl ValueKind {
    fn read(self, text: &str) -> Option<Value> {
        match self {
            ValueKind::Bytes(low, high) | ValueKind::Count(low, high) => number(text, low, high).map(Value::Number),
            ValueKind::Percent => share(text).map(Value::Share),
            ValueKind::Word(words) => words.iter().find(|&&word| word == text).map(|&word| Value::Word(word)),
            ValueKind::BytesList(low, high) | ValueKind::CountList(low, high) => list(text, low, high).map(Value::List),
        }
    }
}

/// Every parameter of one program with its value.
#[derive(Clone, Debug)]
pub(super) struct Values {
    parameters: &'static [Parameter],
    values: Vec<Value>,
    given: Vec<bool>,
}

impl Values {
    /// Parses `key=value,key=value`, which may be empty. Parameters that are not given get their defaults.
    pub fn read(parameters: &'static [Parameter], text: &str) -> Result<Values, String> {
        let default = |p: &Parameter| p.kind.read(p.default).expect("a default is an accepted value");
        let mut values: Vec<Value> = parameters.iter().map(default).collect();
        let mut given = vec![false; parameters.len()];
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| format!("`{pair}` is not of the form key=value"))?;
            let at = parameters.iter().position(|p| p.name == key).ok_or_else(|| {
                let names = parameters.iter().map(|p| p.name);
                format!("there is no parameter `{key}`; {}", suggestion(key, names))
            })?;
            let Parameter { name, kind, .. } = parameters[at];
            if std::mem::replace(&mut given[at], true) {
                return Err(format!("`{name}` is given twice; keep one"));
            }
            values[at] = kind.read(value).ok_or_else(|| format!("`{name}={value}` is not accepted; give {kind}"))?;
        }
        Ok(Values { parameters, values, given })
    }

    fn get(&self, name: &str) -> &Value {
        let at = self.parameters.iter().position(|p| p.name == name);
        &self.values[at.expect("programs read only their own parameters")]
    }

    /// Returns the bytes or count of parameter `name`.
    pub fn number(&self, name: &str) -> u64 {
        match self.get(name) {
            Value::Number(n) => *n,
            other => unreachable!("{name} is {other}, not a number"),
        }
    }

    /// Returns the share of parameter `name`, in [0, 1].
    pub fn share(&self, name: &str) -> f64 {
        match self.get(name) {
            Value::Share(share) => *share,
            other => unreachable!("{name} is {other}, not a share"),
        }
    }

    /// Returns whether parameter `name` has the value `word`.
    pub fn is(&self, name: &str, word: &str) -> bool {
        matches!(self.get(name), Value::Word(own) if *own == word)
    }

    /// Returns the list of parameter `name`.
    pub fn list(&self, name: &str) -> &[u64] {
        match self.get(name) {
            Value::List(list) => list,
            other => unreachable!("{name} is {other}, not a list"),
        }
    }

    /// Returns the given parameters in canonical form: in the order of their definition, with the largest units.
    pub fn canonical(&self) -> String {
        let all = self.parameters.iter().zip(&self.values).zip(&self.given);
        let given = all.filter(|&(_, &given)| given);
        let words: Vec<String> = given.map(|((p, value), _)| format!("{}={value}", p.name)).collect();
        words.join(",")
    }
}

/// Returns a hint for a misspelt name: the most similar of `names`, or all of them when none is similar.
pub(super) fn suggestion<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let distance = |name: &&&str| strsim::damerau_levenshtein(wrong, name);
    match names.iter().min_by_key(distance) {
        Some(near) if distance(&near) <= 2.max(near.len() / 3) && distance(&near) < near.len() => {
            format!("did you mean `{near}`?")
        }
        _ => format!("there are {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMETERS: &[Parameter] = &[
        Parameter { name: "bytes", kind: ValueKind::Bytes(8, 1 << 40), default: "1M", summary: "" },
        Parameter { name: "share", kind: ValueKind::Percent, default: "10%", summary: "" },
        Parameter { name: "order", kind: ValueKind::Word(&["random", "sequential"]), default: "random", summary: "" },
        Parameter { name: "sizes", kind: ValueKind::BytesList(1, 1 << 40), default: "1/2", summary: "" },
    ];

    #[test]
    fn values_are_read_with_their_units() {
        let values = Values::read(PARAMETERS, "sizes=64K/3/1T,bytes=2g,share=12.5%").unwrap();
        assert_eq!(values.number("bytes"), 2 << 30);
        assert_eq!(values.share("share"), 0.125);
        assert_eq!(values.list("sizes"), [65536, 3, 1 << 40]);
        assert!(values.is("order", "random") && !values.is("order", "sequential"));
        assert_eq!(values.canonical(), "bytes=2G,share=12.5%,sizes=64K/3/1T");
        assert_eq!(Values::read(PARAMETERS, "").unwrap().canonical(), "");
    }

    #[test]
    fn errors_name_the_parameter_and_what_it_accepts() {
        let error = |text: &str| Values::read(PARAMETERS, text).unwrap_err();
        assert_eq!(error("byte=1"), "there is no parameter `byte`; did you mean `bytes`?");
        assert_eq!(error("zebra=1"), "there is no parameter `zebra`; there are bytes, share, order, sizes");
        assert_eq!(error("bytes=4"), "`bytes=4` is not accepted; give bytes, 8 to 1T");
        assert_eq!(error("bytes"), "`bytes` is not of the form key=value");
        assert_eq!(error("bytes=8,bytes=9"), "`bytes` is given twice; keep one");
        assert_eq!(error("order=up"), "`order=up` is not accepted; give random or sequential");
        for wrong in ["", "K", "-1", "+9", "1e3", "9999999999999T", "0x10", "1 K", "ä"] {
            assert!(error(&format!("bytes={wrong}")).contains("not accepted"), "{wrong}");
        }
        for wrong in ["10", "101%", "-1%", "NaN%", "%"] {
            assert!(error(&format!("share={wrong}")).contains("not accepted"), "{wrong}");
        }
    }
}
