//! Scenario files: which programs run in one machine, and what starts when.
//!
//! ```toml
//! about = "a transform, four times in sequence, after a server"
//! quantum = 1000000            # instructions; without it, who runs runs to its end
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
use crate::{TraceError, synthetic};
use serde::Deserialize;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: Option<String>,
    quantum: Option<u64>,
    program: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
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

/// Opens the scenario file `path`. Its traces are sought beside it. Fails with [`TraceError::Invalid`] where something is
/// wrong with it, and as [`open`](crate::open()) does with its traces.
pub fn open(path: &Path) -> Result<Multiprogram, TraceError> {
    let text = std::fs::read_to_string(path).map_err(|source| TraceError::Io { path: path.to_owned(), source })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    read(&text, &crate::name_of(path), folder).map_err(|error| match error {
        TraceError::Invalid(what) => TraceError::Invalid(format!("{}: {what}", path.display())),
        other => other,
    })
}

/// The scenario of a file's text, called `name` in results; its traces are sought in `folder`.
pub fn read(text: &str, name: &str, folder: &Path) -> Result<Multiprogram, TraceError> {
    let unknown = TraceError::Invalid;
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        unknown(format!("line {line}: {}", error.message().trim_end().replace('\n', "; ")))
    })?;
    if file.program.is_empty() {
        return Err(unknown("it has no programs; give each under [[program]]".into()));
    }
    if file.quantum == Some(0) {
        return Err(unknown("a quantum of 0 instructions lets nobody run; give a greater one".into()));
    }
    let mut names: Vec<String> = Vec::new();
    let mut members = Vec::new();
    for (at, entry) in file.program.into_iter().enumerate() {
        let number = at + 1;
        let member = member(entry, &names, folder).map_err(|error| match error {
            TraceError::Invalid(what) => unknown(format!("program {number}: {what}")),
            other => other,
        })?;
        names.push(member.name.clone());
        members.push(member);
    }
    if let Some(member) = members.iter().find(|m| m.turn == Some(0) || m.turn.is_some() && file.quantum.is_none()) {
        return Err(unknown(format!(
            "{:?}: its own turns need a quantum for all, and an instruction at least",
            member.name
        )));
    }
    if let Some(member) = members.iter().find(|m| m.background && file.quantum.is_none()) {
        return Err(unknown(format!("{:?} runs in the background, which needs a quantum; give one", member.name)));
    }
    if members.iter().all(|member| member.background) {
        return Err(unknown(
            "all programs run in the background, which lasts as long as others; give one that ends".into(),
        ));
    }
    Ok(Multiprogram::new(file.about.map_or(name.to_owned(), |about| format!("{name}: {about}")), members, file.quantum))
}

fn member(entry: Entry, earlier: &[String], folder: &Path) -> Result<Member, TraceError> {
    let wrong = |what: String| Err(TraceError::Invalid(what));
    let mut member = match (entry.run, entry.trace) {
        (Some(spec), None) => synthetic_member(&spec)?,
        (None, Some(path)) => trace_member(&folder.join(path))?,
        _ => return wrong("give either run (a synthetic program) or trace (a file)".into()),
    };
    if let Some(name) = entry.name {
        if name.is_empty() || name.contains(|c: char| c == '/' || c.is_control()) {
            return wrong(format!("{name:?} is no name; give one without slashes"));
        }
        member.name = name;
    }
    if earlier.contains(&member.name) {
        return wrong(format!("there is a {:?} already; give it another name", member.name));
    }
    member.start = match (entry.at, entry.after) {
        (at, None) => Start::At(at.unwrap_or(0)),
        (None, Some(after)) => match earlier.iter().position(|name| *name == after) {
            Some(at) => Start::After(at),
            None => return wrong(format!("after = {after:?}: there is no program of that name before this one")),
        },
        (Some(_), Some(_)) => return wrong("it has both at and after; keep one".into()),
    };
    member.repeat = entry.repeat.unwrap_or(1);
    member.every = entry.every;
    (member.turn, member.background) = (entry.turn, entry.background);
    if member.repeat == 0 {
        return wrong("repeat = 0 means that it never runs; give at least 1".into());
    }
    if member.every.is_some() && member.repeat == 1 {
        return wrong("every says how far repetitions are apart, but there are none; give repeat".into());
    }
    Ok(member)
}

/// A synthetic program that starts at once and runs once, under the name that it has before the `:`.
pub fn synthetic_member(spec: &str) -> Result<Member, TraceError> {
    synthetic::parse(spec)?;
    let (spec, name) = (spec.to_owned(), spec.split(':').next().unwrap_or(spec).to_owned());
    Ok(Member::new(name, Box::new(move || synthetic::parse(&spec))))
}

/// A trace that starts at once and runs once, under the name of its file.
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
    fn mistakes_are_named() {
        for (text, message) in [
            ("", "line 1: missing field `program`"),
            ("program = []", "it has no programs; give each under [[program]]"),
            (
                "quantum = 0\n[[program]]\nrun = 'touch'",
                "a quantum of 0 instructions lets nobody run; give a greater one",
            ),
            ("[[program]]\nname = 'x'", "program 1: give either run (a synthetic program) or trace (a file)"),
            (
                "[[program]]\nrun = 'touch'\ntrace = 't'",
                "program 1: give either run (a synthetic program) or trace (a file)",
            ),
            ("[[program]]\nrun = 'tuoch'", "program 1: there is no synthetic program `tuoch`; did you mean `touch`?"),
            ("[[program]]\nrun = 'touch'\nat = 1\nafter = 'x'", "program 1: it has both at and after; keep one"),
            (
                "[[program]]\nrun = 'touch'\nafter = 'touch'",
                "program 1: after = \"touch\": there is no program of that name before this one",
            ),
            (
                "[[program]]\nrun = 'touch'\n[[program]]\nrun = 'touch'",
                "program 2: there is a \"touch\" already; give it another name",
            ),
            ("[[program]]\nrun = 'touch'\nname = 'a/b'", "program 1: \"a/b\" is no name; give one without slashes"),
            (
                "[[program]]\nrun = 'touch'\nrepeat = 0",
                "program 1: repeat = 0 means that it never runs; give at least 1",
            ),
            (
                "[[program]]\nrun = 'touch'\nturn = 5",
                "\"touch\": its own turns need a quantum for all, and an instruction at least",
            ),
            (
                "[[program]]\nrun = 'touch'\nbackground = true",
                "\"touch\" runs in the background, which needs a quantum; give one",
            ),
            (
                "quantum = 9\n[[program]]\nrun = 'touch'\nbackground = true",
                "all programs run in the background, which lasts as long as others; give one that ends",
            ),
            (
                "[[program]]\nrun = 'touch'\nevery = 5",
                "program 1: every says how far repetitions are apart, but there are none; give repeat",
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
    fn a_file_that_is_not_there_is_named() {
        let error = open(Path::new("/no/such/scenario.toml")).err().unwrap().to_string();
        assert!(error.starts_with("/no/such/scenario.toml: "), "{error}");
    }
}
