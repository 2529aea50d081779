//! Machine specifications as users write them: a preset's name or a file's path, and overrides.
//!
//! `skylake-e3-1240v5:tlb.l2.entries=3072,caches.l3.bytes=16M`.

use super::error::{MachineError, suggestion};
use super::facts::{is_fact, walk};
use super::renamed;
use super::tag::Tag;
use toml::{Table, Value};

/// A machine specification, split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec<'a> {
    /// A preset's name or a path.
    pub base: &'a str,
    /// Whether `base` is a path.
    pub is_path: bool,
    /// The overrides, in order.
    pub overrides: Vec<Override<'a>>,
}

/// One override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Override<'a> {
    path: &'a str,
    value: &'a str,
}

impl<'a> Spec<'a> {
    /// Splits `spec`. A path ends with `.toml` or holds a `/`.
    pub fn parse(spec: &'a str) -> Result<Spec<'a>, MachineError> {
        let cut = match spec.find(".toml") {
            Some(at) => at + ".toml".len(),
            None => spec.find(':').unwrap_or(spec.len()),
        };
        let (base, rest) = spec.split_at(cut);
        let rest = match rest.strip_prefix(':') {
            Some(rest) => rest,
            None if rest.is_empty() => "",
            None => {
                return Err(refuse(spec, format!("{base} is followed by {rest:?}; overrides must start with a colon")));
            }
        };
        let overrides =
            rest.split(',').filter(|text| !text.is_empty()).map(Override::parse).collect::<Result<_, _>>()?;
        Ok(Spec { base, is_path: base.ends_with(".toml") || base.contains('/'), overrides })
    }
}

fn refuse(spec: &str, what: String) -> MachineError {
    MachineError::Override { spec: spec.to_owned(), what }
}

impl<'a> Override<'a> {
    fn parse(text: &'a str) -> Result<Override<'a>, MachineError> {
        match text.split_once('=') {
            Some((path, value)) if !path.trim().is_empty() && !value.trim().is_empty() => {
                Ok(Override { path: path.trim(), value: value.trim() })
            }
            _ => Err(refuse(text, "write an override as key=value, such as tlb.l2.entries=3072".to_owned())),
        }
    }

    /// Sets the fact at this override's path, tagged [`Tag::Override`].
    ///
    /// # Errors
    /// When the machine has no such key; the error names the present name of a renamed key, or near keys.
    pub fn apply(&self, table: &mut Table) -> Result<(), MachineError> {
        let mut known = Vec::new();
        walk(table, &mut |path, _| known.push(path.to_owned()));
        let spec = || format!("{}={}", self.path, self.value);
        let fact = find(table, self.path).ok_or_else(|| {
            if let Some(present) = renamed::present_path(self.path) {
                let what = format!("key {} is now {present}; write {present}={}", self.path, self.value);
                return refuse(&spec(), what);
            }
            let all = "`reach machine show` lists the keys";
            let hint = suggestion(self.path, known.iter().map(String::as_str), all);
            refuse(&spec(), format!("no key {:?}; {hint}", self.path))
        })?;
        let value = typed(self.value, &fact[0]);
        *fact = vec![value, Value::String(Tag::Override.symbol().to_owned())];
        Ok(())
    }
}

/// Returns the fact at `path`: value, tag and perhaps a reason. `None`: there is no key, or no fact, at `path`.
fn find<'t>(table: &'t mut Table, path: &str) -> Option<&'t mut Vec<Value>> {
    let (parents, last) = path.rsplit_once('.')?;
    let mut table = table;
    for key in parents.split('.') {
        table = table.get_mut(key)?.as_table_mut()?;
    }
    table.get_mut(last).filter(|value| is_fact(value))?.as_array_mut()
}

/// Reads `text` as a value of the type of `old`; the members of a list are separated by `+`. Text of another type stays a
/// string, which the schema then refuses.
fn typed(text: &str, old: &Value) -> Value {
    match old {
        Value::Array(members) => {
            let like = members.first().cloned().unwrap_or(Value::String(String::new()));
            Value::Array(text.split('+').map(|member| typed(member.trim(), &like)).collect())
        }
        Value::Integer(_) => text.parse().map_or_else(|_| Value::String(text.to_owned()), Value::Integer),
        Value::Boolean(_) => text.parse().map_or_else(|_| Value::String(text.to_owned()), Value::Boolean),
        _ => Value::String(text.to_owned()),
    }
}
