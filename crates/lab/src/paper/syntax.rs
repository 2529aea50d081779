//! Reading TOML: errors say the line, and the new name of a renamed key.

use serde::de::DeserializeOwned;

/// Renamed keys, each with its present name.
const RENAMED: [(&str, &str); 1] = [("skim", "fast_forward")];

/// Reads a value from TOML. The error says the line and what was expected.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        format!("line {line}: {}", explain(&error))
    })
}

/// Returns what is wrong, on one line.
pub(super) fn explain(error: &toml::de::Error) -> String {
    let message = error.message().trim_end();
    let renamed = RENAMED.iter().find(|(old, _)| message.starts_with(&format!("unknown field `{old}`")));
    match renamed {
        Some((old, new)) => format!("the key `{old}` is now called `{new}`"),
        None => message.replace('\n', "; "),
    }
}
