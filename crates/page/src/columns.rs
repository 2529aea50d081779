//! Rows by column. A heat map has many thousands of rows, and most of a row are names that it shares with others.
//!
//! Rows with the same names of columns are a group. A column is one of
//!
//! - `{"all": value}`, if every row has the same value;
//! - `{"of": [value, …], "at": [number, …]}`, if values recur: each row has the value with this number;
//! - `{"each": [value, …]}` otherwise.
//!
//! Values are copied as they are written, so no digit is lost. `rows.js` makes rows of them again.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::fmt;

/// The fields of a JSON object in their order, each value as it is written.
pub struct Row(pub Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Row, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Row;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Row, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Row(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// Rows with the same names of columns.
struct Group {
    names: Vec<String>,
    /// The number of each row among all rows.
    numbers: Vec<usize>,
    /// The values of each column.
    columns: Vec<Vec<Box<RawValue>>>,
}

/// Returns the groups of `lines`, each of which is a JSON object, as JSON.
///
/// # Errors
/// If a line is no JSON object.
pub fn columns(lines: &str) -> Result<String, serde_json::Error> {
    let mut groups: Vec<Group> = Vec::new();
    let mut known: HashMap<Vec<String>, usize> = HashMap::new();
    for (number, line) in lines.lines().filter(|line| !line.trim().is_empty()).enumerate() {
        let (names, values): (Vec<_>, Vec<_>) = super::fields(line)?.into_iter().unzip();
        let at = *known.entry(names.clone()).or_insert_with(|| {
            let columns = names.iter().map(|_| Vec::new()).collect();
            groups.push(Group { names, numbers: Vec::new(), columns });
            groups.len() - 1
        });
        groups[at].numbers.push(number);
        groups[at].columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
    }
    Ok(format!("[{}]", groups.iter().map(Group::json).collect::<Vec<_>>().join(",\n")))
}

impl Group {
    fn json(&self) -> String {
        let quoted = |name: &String| serde_json::to_string(name).expect("text is JSON");
        let columns = self.names.iter().zip(&self.columns);
        let columns: Vec<_> = columns.map(|(name, values)| format!("[{},{}]", quoted(name), column(values))).collect();
        format!("{{\"numbers\":{},\"columns\":[{}]}}", list(&self.numbers), columns.join(","))
    }
}

/// Returns a column in the shortest form.
fn column(values: &[Box<RawValue>]) -> String {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let (mut of, mut at) = (Vec::new(), Vec::with_capacity(values.len()));
    for value in values {
        let number = *numbers.entry(value.get()).or_insert_with(|| {
            of.push(value.get());
            of.len() - 1
        });
        at.push(number);
    }
    let each = || format!("{{\"each\":{}}}", list(values));
    match &of[..] {
        [one] if values.len() > 1 => format!("{{\"all\":{one}}}"),
        _ => {
            let numbered = format!("{{\"of\":{},\"at\":{}}}", list(&of), list(&at));
            std::cmp::min_by_key(numbered, each(), String::len)
        }
    }
}

fn list<T: fmt::Display>(values: &[T]) -> String {
    let values: Vec<_> = values.iter().map(T::to_string).collect();
    format!("[{}]", values.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, Value};

    /// Makes rows of groups again, in their order, as `rows.js` does.
    fn rows(json: &str) -> Vec<Value> {
        let groups: Vec<Value> = serde_json::from_str(json).unwrap();
        let mut rows = Vec::new();
        for group in &groups {
            for (at, number) in group["numbers"].as_array().unwrap().iter().enumerate() {
                let cell = |column: &Value| match (column.get("all"), column.get("at")) {
                    (Some(all), _) => all.clone(),
                    (_, Some(numbers)) => column["of"][numbers[at].as_u64().unwrap() as usize].clone(),
                    _ => column["each"][at].clone(),
                };
                let columns = group["columns"].as_array().unwrap().iter();
                let row: Map<_, _> = columns.map(|c| (c[0].as_str().unwrap().to_owned(), cell(&c[1]))).collect();
                rows.push((number.as_u64().unwrap(), Value::Object(row)));
            }
        }
        rows.sort_by_key(|(number, _)| *number);
        rows.into_iter().map(|(_, row)| row).collect()
    }

    #[test]
    fn no_row_and_no_order_is_lost() {
        let lines = r#"{"machine":"m","value":1,"unit":"bytes"}
{"machine":"m","value":0.1234567890123456789,"unit":"bytes","error":null}
{"machine":"m","value":18446744073709551615,"unit":"cycles"}

{"machine":"m","value":1,"unit":"cycles"}"#;
        let json = columns(lines).unwrap();
        let expected: Vec<Value> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert_eq!(rows(&json), expected);
        assert!(json.contains("0.1234567890123456789"), "digits are copied: {json}");
    }

    #[test]
    fn names_that_recur_are_written_once() {
        let lines: String = (0..100).map(|n| format!("{{\"owner\":\"a long name\",\"misses\":{n}}}\n")).collect();
        let json = columns(&lines).unwrap();
        assert_eq!(json.matches("a long name").count(), 1);
        assert_eq!(rows(&json).len(), 100);
    }
}
