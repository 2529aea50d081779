//! Names the new spelling where the command line has an option, or a value of one, from before a renaming.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Options by their old and new names.
const OPTIONS: [(&str, &str); 1] = [("--skim", "--fast-forward")];

/// Values of options by their old and new names.
const VALUES: [(&str, &str, &str); 1] = [("--timing", "window", "ooo")];

/// Adds a tip to `error` that names the new spelling of what the user typed. Other errors stay as they are.
pub fn explain(error: &mut clap::Error) {
    let argument = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => argument.split([' ', '=']).next().unwrap_or_default(),
        _ => return,
    };
    let tip = match (error.kind(), error.get(ContextKind::InvalidValue)) {
        (ErrorKind::UnknownArgument, _) => {
            let option = OPTIONS.iter().find(|(old, _)| *old == argument);
            option.map(|(old, new)| format!("{old} is now called {new}"))
        }
        (ErrorKind::InvalidValue, Some(ContextValue::String(value))) => {
            let renamed = VALUES.iter().find(|(option, old, _)| *option == argument && old == value);
            renamed.map(|(option, old, new)| format!("{option} {old} is now called {option} {new}"))
        }
        _ => None,
    };
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedValue);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
}
