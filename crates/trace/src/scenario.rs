//! Scenario files: lists of programs that run on one machine, with the times when they start.
//!
//! ```toml
//! about = "a transform, four times in sequence, after a server"
//! quantum = 1000000            # instructions; without it, each program runs to its end
//!
//! [[program]]
//! name = "web"
//! run = "web:requests=50000"   # or trace = "web.reach", relative to this file
//!
//! [[program]]
//! name = "fft"
//! run = "fft3:n=200"
//! after = "web"                # or at = 5000000, in instructions of all programs together
//! repeat = 4                   # and every = 1000000 instructions from start to start
//! ```

use crate::multiprogram::{Member, Multiprogram, Start};
use crate::{TraceError, synthetic, text};
use reach_core::Shown;
use serde::Deserialize;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioFile {
    about: Option<String>,
    quantum: Option<u64>,
    program: Vec<ProgramEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramEntry {
    name: Option<String>,
    run: Option<String>,
    trace: Option<PathBuf>,
    at: Option<u64>,
    after: Option<String>,
    repeat: Option<u64>,
    every: Option<u64>,
    turn: Option<u64>,
    #[serde(default)]
    background: bool,
}

/// Opens the scenario file `path`. Paths of traces are relative to the folder of the file.
///
/// Fails with [`TraceError::Invalid`] where the scenario is wrong, and as [`open`](crate::open()) does on its traces.
pub fn open(path: &Path) -> Result<Multiprogram, TraceError> {
    let text = text::read(path, text::MAX_BYTES).map_err(|source| TraceError::Io { path: path.to_owned(), source })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    read(&text, &crate::name_of(path), folder).map_err(|error| match error {
        TraceError::Invalid(what) => TraceError::Invalid(format!("{}: {what}", path.shown())),
        other => other,
    })
}

/// Reads a scenario from the text of a file. `name` is its name in results; paths of traces are relative to `folder`. Fails
/// as [`open`] does.
pub fn read(text: &str, name: &str, folder: &Path) -> Result<Multiprogram, TraceError> {
    let invalid = TraceError::Invalid;
    let file: ScenarioFile = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        invalid(format!("line {line}: {}", error.message().trim_end().replace('\n', "; ")))
    })?;
    if file.program.is_empty() {
        return Err(invalid("no programs; give each under [[program]]".into()));
    }
    if file.quantum == Some(0) {
        return Err(invalid("quantum = 0: expected at least 1 instruction".into()));
    }
    let mut names: Vec<String> = Vec::new();
    let mut members = Vec::new();
    for (at, entry) in file.program.into_iter().enumerate() {
        let number = at + 1;
        let member = member(entry, &names, folder).map_err(|error| match error {
            TraceError::Invalid(what) => invalid(format!("program {number}: {what}")),
            other => other,
        })?;
        names.push(member.name.clone());
        members.push(member);
    }
    if let Some(member) = members.iter().find(|m| m.turn == Some(0) || m.turn.is_some() && file.quantum.is_none()) {
        return Err(invalid(format!(
            "{:?}: turn needs at least 1 instruction, and a quantum for the others",
            member.name
        )));
    }
    if let Some(member) = members.iter().find(|m| m.background && file.quantum.is_none()) {
        return Err(invalid(format!("{:?} runs in the background, which needs a quantum; give one", member.name)));
    }
    if members.iter().all(|member| member.background) {
        return Err(invalid(
            "all programs run in the background, which ends with the others; give one that does not".into(),
        ));
    }
    Ok(Multiprogram::new(file.about.map_or(name.to_owned(), |about| format!("{name}: {about}")), members, file.quantum))
}

fn member(entry: ProgramEntry, earlier: &[String], folder: &Path) -> Result<Member, TraceError> {
    let invalid = |message: String| Err(TraceError::Invalid(message));
    let mut member = match (entry.run, entry.trace) {
        (Some(spec), None) => synthetic_member(&spec)?,
        (None, Some(path)) => trace_member(&folder.join(path))?,
        _ => return invalid("give either run (a synthetic program) or trace (a file)".into()),
    };
    if let Some(name) = entry.name {
        if name.is_empty() || name.contains(|c: char| c == '/' || c.is_control()) {
            return invalid(format!("name = {name:?}: expected a name without slashes and control characters"));
        }
        member.name = name;
    }
    if earlier.contains(&member.name) {
        return invalid(format!("an earlier program has the name {:?}; give this one another name", member.name));
    }
    member.start = match (entry.at, entry.after) {
        (at, None) => Start::At(at.unwrap_or(0)),
        (None, Some(after)) => match earlier.iter().position(|name| *name == after) {
            Some(at) => Start::After(at),
            None => return invalid(format!("after = {after:?}: no earlier program has that name")),
        },
        (Some(_), Some(_)) => return invalid("has both at and after; keep one".into()),
    };
    member.repeat = entry.repeat.unwrap_or(1);
    member.every = entry.every;
    (member.turn, member.background) = (entry.turn, entry.background);
    if member.repeat == 0 {
        return invalid("repeat = 0: expected at least 1".into());
    }
    if member.every.is_some() && member.repeat == 1 {
        return invalid("every is the distance between repetitions; give repeat = 2 or more too".into());
    }
    Ok(member)
}

/// Returns a synthetic program that starts at once and runs once. Its name is the part of `spec` before the `:`.
pub fn synthetic_member(spec: &str) -> Result<Member, TraceError> {
    synthetic::parse(spec)?;
    let (spec, name) = (spec.to_owned(), spec.split(':').next().unwrap_or(spec).to_owned());
    Ok(Member::new(name, Box::new(move || synthetic::parse(&spec))))
}

/// Returns a trace that starts at once and runs once. Its name is that of its file.
pub fn trace_member(path: &Path) -> Result<Member, TraceError> {
    crate::open(path)?;
    let (path, name) = (path.to_owned(), crate::name_of(path));
    Ok(Member::new(name, Box::new(move || crate::open(&path))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        read(text, "s.toml", Path::new("")).err().expect(text).to_string()
    }

    #[test]
    fn mistakes_are_explained() {
        for (text, message) in [
            ("", "line 1: missing field `program`"),
            ("program = []", "no programs; give each under [[program]]"),
            ("quantum = 0\n[[program]]\nrun = 'touch'", "quantum = 0: expected at least 1 instruction"),
            ("[[program]]\nname = 'x'", "program 1: give either run (a synthetic program) or trace (a file)"),
            (
                "[[program]]\nrun = 'touch'\ntrace = 't'",
                "program 1: give either run (a synthetic program) or trace (a file)",
            ),
            ("[[program]]\nrun = 'tuoch'", "program 1: there is no synthetic program `tuoch`; did you mean `touch`?"),
            ("[[program]]\nrun = 'touch'\nat = 1\nafter = 'x'", "program 1: has both at and after; keep one"),
            (
                "[[program]]\nrun = 'touch'\nafter = 'touch'",
                "program 1: after = \"touch\": no earlier program has that name",
            ),
            (
                "[[program]]\nrun = 'touch'\n[[program]]\nrun = 'touch'",
                "program 2: an earlier program has the name \"touch\"; give this one another name",
            ),
            (
                "[[program]]\nrun = 'touch'\nname = 'a/b'",
                "program 1: name = \"a/b\": expected a name without slashes and control characters",
            ),
            ("[[program]]\nrun = 'touch'\nrepeat = 0", "program 1: repeat = 0: expected at least 1"),
            (
                "[[program]]\nrun = 'touch'\nturn = 5",
                "\"touch\": turn needs at least 1 instruction, and a quantum for the others",
            ),
            (
                "[[program]]\nrun = 'touch'\nbackground = true",
                "\"touch\" runs in the background, which needs a quantum; give one",
            ),
            (
                "quantum = 9\n[[program]]\nrun = 'touch'\nbackground = true",
                "all programs run in the background, which ends with the others; give one that does not",
            ),
            (
                "[[program]]\nrun = 'touch'\nevery = 5",
                "program 1: every is the distance between repetitions; give repeat = 2 or more too",
            ),
        ] {
            assert_eq!(error(text), message, "{text}");
        }
        assert!(error("[[program]]\nrun = 'touch'\nwhen = 3").starts_with("line 3: unknown field `when`"));
        assert!(error("[[program]]\nrun = 'touch'\nat = -3").starts_with("line 3: "));
        assert!(error("[[program]]\nrun = ").starts_with("line 2: "));
        assert!(error("[[program]]\ntrace = '/no/such/trace'").contains("/no/such/trace"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = open(Path::new("/no/such/scenario.toml")).err().unwrap().to_string();
        assert!(error.starts_with("/no/such/scenario.toml: "), "{error}");
    }
}
