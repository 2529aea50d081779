//! Selections of metrics by name.

use super::{definition, definitions, matching, pattern};
use crate::machine::suggestion;
use std::str::FromStr;

/// A selection of metrics: a name, or a glob in which `*` stands for any characters.
///
/// ```
/// use reach_lab::metrics::Selector;
///
/// let selector: Selector = "walks*".parse()?;
/// assert!(selector.selects("walks.fetch") && !selector.selects("wcpi"));
/// let error = "wpci".parse::<Selector>().unwrap_err();
/// assert!(error.to_string().starts_with("there is no metric wpci; did you mean wcpi"));
/// # Ok::<(), reach_lab::metrics::UnknownMetric>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    text: String,
    glob: String,
}

/// A name or glob that selects no metric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no metric {text}; {suggestion}")]
pub struct UnknownMetric {
    text: String,
    suggestion: String,
}

fn is_glob(text: &str) -> bool {
    text.contains(['*', pattern::PART])
}

impl FromStr for Selector {
    type Err = UnknownMetric;

    fn from_str(text: &str) -> Result<Selector, UnknownMetric> {
        let glob = pattern::as_glob(text);
        let known = if is_glob(&glob) { !matching(&glob).is_empty() } else { definition(text).is_some() };
        if known {
            return Ok(Selector { text: text.to_owned(), glob });
        }
        let names = definitions().map(|definition| definition.name);
        let suggestion = suggestion(text, names, "`reach explain` lists all metrics");
        Err(UnknownMetric { text: text.to_owned(), suggestion })
    }
}

impl Selector {
    /// Returns whether the metric `name` is selected.
    pub fn selects(&self, name: &str) -> bool {
        // A metric's name has no `*`, so it intersects with what matches it.
        pattern::intersects(&self.glob, name)
    }

    /// Returns the definitions of which some metric is selected, in the order of the table.
    pub fn definitions(&self) -> Vec<&'static super::Definition> {
        if is_glob(&self.glob) { matching(&self.glob) } else { definition(&self.text).into_iter().collect() }
    }

    /// Returns the selection as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}
