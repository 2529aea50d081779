//! Sweeps: experiments that differ in a few words, such as the points of one workload. A form has blanks, and each
//! experiment fills them.

use super::syntax::explain;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// A form of experiments whose texts have blanks: `{scale}` is filled with the `scale` of each experiment. A text that is
/// only a blank takes the type of what fills it, such as a number.
#[derive(Deserialize)]
pub(super) struct Sweep {
    each: Vec<Table>,
    #[serde(flatten)]
    form: Table,
}

impl Sweep {
    /// Returns the experiments.
    pub fn expand<T: DeserializeOwned>(&self) -> Result<Vec<T>, String> {
        let fill = |point: &Table| {
            let filled = fill(&Value::Table(self.form.clone()), point)?;
            let name = filled.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            filled.try_into().map_err(|error| format!("experiment {name}: {}", explain(&error)))
        };
        self.each.iter().map(fill).collect()
    }
}

fn fill(form: &Value, point: &Table) -> Result<Value, String> {
    Ok(match form {
        Value::String(text) => fill_text(text, point)?,
        Value::Array(parts) => Value::Array(parts.iter().map(|part| fill(part, point)).collect::<Result<_, _>>()?),
        Value::Table(table) => {
            let filled = table.iter().map(|(key, value)| Ok((key.clone(), fill(value, point)?)));
            Value::Table(filled.collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}

fn fill_text(text: &str, point: &Table) -> Result<Value, String> {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, blank, after)) = next_blank(rest) {
        let value = point.get(blank).ok_or_else(|| format!("{text:?}: an entry of each has no {blank}; give it"))?;
        if rest.len() == text.len() && before.is_empty() && after.is_empty() {
            return Ok(value.clone());
        }
        filled += before;
        match value {
            Value::String(value) => filled += value,
            value => filled += &value.to_string(),
        }
        rest = after;
    }
    Ok(Value::String(filled + rest))
}

/// Returns the text before the next blank, the blank's name, and the text after it.
fn next_blank(text: &str) -> Option<(&str, &str, &str)> {
    let (before, from) = text.split_once('{')?;
    let (blank, after) = from.split_once('}')?;
    Some((before, blank, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Filled {
        name: String,
        run: Vec<String>,
        fast_forward: u64,
    }

    fn expand(text: &str) -> Result<Vec<Filled>, String> {
        toml::from_str::<Sweep>(text).unwrap().expand()
    }

    #[test]
    fn blanks_are_filled_from_each_entry() {
        let form = "name = 'bc-{scale}'\nrun = ['./bc', 'a{scale}{word}z']\nfast_forward = '{fast_forward}'\n";
        let filled = expand(&format!(
            "{form}each = [{{scale = 3, word = 'x', fast_forward = 9}}, {{scale = 4, word = '', fast_forward = 8}}]"
        ));
        let expected = |name: &str, last: &str, fast_forward| Filled {
            name: name.into(),
            run: vec!["./bc".into(), last.into()],
            fast_forward,
        };
        assert_eq!(filled, Ok(vec![expected("bc-3", "a3xz", 9), expected("bc-4", "a4z", 8)]));
        let error = expand(&format!("{form}each = [{{scale = 3, fast_forward = 9}}]")).unwrap_err();
        assert!(error.contains("has no word"), "{error}");
        let error = expand(&format!("{form}each = [{{scale = 3, word = '', fast_forward = 'many'}}]")).unwrap_err();
        assert!(error.starts_with("experiment bc-3: "), "{error}");
    }
}
