//! What a user writes for a machine: a preset's name or a file's path, and differences from it:
//! `skylake-e3-1240v5:tlb.l2.entries=3072,caches.l3.bytes=16M`.

use super::error::{MachineError, suggestion};
use super::rows::{is_fact, walk};
use super::tag::Tag;
use toml::{Table, Value};

/// A machine as the user named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec<'a> {
    /// A preset's name or a path.
    pub base: &'a str,
    /// Whether `base` is a path.
    pub is_path: bool,
    /// The differences, in order.
    pub edits: Vec<Edit<'a>>,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit<'a> {
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
            None => return Err(refuse(spec, format!("what follows {base} must start with a colon"))),
        };
        let edits = rest.split(',').filter(|edit| !edit.is_empty()).map(Edit::parse).collect::<Result<_, _>>()?;
        Ok(Spec { base, is_path: base.ends_with(".toml") || base.contains('/'), edits })
    }
}

fn refuse(spec: &str, what: String) -> MachineError {
    MachineError::Override { spec: spec.to_owned(), what }
}

impl<'a> Edit<'a> {
    fn parse(text: &'a str) -> Result<Edit<'a>, MachineError> {
        match text.split_once('=') {
            Some((path, value)) if !path.trim().is_empty() && !value.trim().is_empty() => {
                Ok(Edit { path: path.trim(), value: value.trim() })
            }
            _ => Err(refuse(text, "write an override as key=value, such as tlb.l2.entries=3072".to_owned())),
        }
    }

    /// Sets the fact at this edit's path, tagged as the user's.
    pub fn apply(&self, table: &mut Table) -> Result<(), MachineError> {
        let mut known = Vec::new();
        walk(table, &mut |path, _| known.push(path.to_owned()));
        let spec = || format!("{}={}", self.path, self.value);
        let fact = find(table, self.path).ok_or_else(|| {
            let all = "`reach machine show` lists the keys";
            let hint = suggestion(self.path, known.iter().map(String::as_str), all);
            refuse(&spec(), format!("no key {:?}; {hint}", self.path))
        })?;
        let value = typed(self.value, &fact[0]);
        *fact = vec![value, Value::String(Tag::Override.symbol().to_owned())];
        Ok(())
    }
}

/// The fact at `path`: value, tag and perhaps a reason.
fn find<'t>(table: &'t mut Table, path: &str) -> Option<&'t mut Vec<Value>> {
    let (parents, last) = path.rsplit_once('.')?;
    let mut table = table;
    for key in parents.split('.') {
        table = table.get_mut(key)?.as_table_mut()?;
    }
    table.get_mut(last).filter(|value| is_fact(value))?.as_array_mut()
}

/// `text` as a value of the type of `old`; where it is none, as what it looks like, for the schema to judge.
/// The members of a list are separated by `+`.
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
