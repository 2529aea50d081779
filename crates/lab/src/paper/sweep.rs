//! Experiments that differ in a few words, such as the points of one workload: a form, and what each puts into its blanks.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// A form of experiments, whose texts have blanks: `{scale}` is filled with what each has for `scale`. A text that is nothing
/// but a blank becomes what fills it, a number a number.
#[derive(Deserialize)]
pub(super) struct Sweep {
    each: Vec<Table>,
    #[serde(flatten)]
    form: Table,
}

impl Sweep {
    /// The experiments.
    pub fn expand<T: DeserializeOwned>(&self) -> Result<Vec<T>, String> {
        let fill = |point: &Table| {
            let filled = fill(&Value::Table(self.form.clone()), point)?;
            let name = filled.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            filled.try_into().map_err(|error| format!("experiment {name}: {}", error.message().trim_end()))
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
        let value = point.get(blank).ok_or_else(|| format!("{text:?}: one of each has no {blank}; give it"))?;
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

/// The text before the next blank, its name, and what is behind it.
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
    struct Point {
        name: String,
        run: Vec<String>,
        fast_forward: u64,
    }

    fn expand(text: &str) -> Result<Vec<Point>, String> {
        toml::from_str::<Sweep>(text).unwrap().expand()
    }

    #[test]
    fn blanks_are_filled_with_what_each_has() {
        let form = "name = 'bc-{scale}'\nrun = ['./bc', 'a{scale}{word}z']\nfast_forward = '{fast_forward}'\n";
        let points = expand(&format!(
            "{form}each = [{{scale = 3, word = 'x', fast_forward = 9}}, {{scale = 4, word = '', fast_forward = 8}}]"
        ));
        let point = |name: &str, last: &str, fast_forward| Point {
            name: name.into(),
            run: vec!["./bc".into(), last.into()],
            fast_forward,
        };
        assert_eq!(points, Ok(vec![point("bc-3", "a3xz", 9), point("bc-4", "a4z", 8)]));
        let error = expand(&format!("{form}each = [{{scale = 3, fast_forward = 9}}]")).unwrap_err();
        assert!(error.contains("has no word"), "{error}");
        let error = expand(&format!("{form}each = [{{scale = 3, word = '', fast_forward = 'many'}}]")).unwrap_err();
        assert!(error.starts_with("experiment bc-3: "), "{error}");
    }
}
