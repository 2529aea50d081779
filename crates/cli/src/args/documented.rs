//! Parses every command in README and the docs, so that none goes out of date. Parsing resolves machines, systems, programs
//! and their options.

use super::Cli;
use clap::Parser;
use std::path::{Path, PathBuf};

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the pages that show commands.
fn pages() -> Vec<PathBuf> {
    let markdown = |folder: PathBuf| {
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "md"))
    };
    let papers = std::fs::read_dir(root().join("papers")).unwrap().map(|entry| entry.unwrap().path());
    markdown(root()).chain(markdown(root().join("docs"))).chain(papers.flat_map(markdown)).collect()
}

/// Returns the `reach` commands in the code blocks of `text`, without comments and redirections, each as one line.
fn commands(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut code = String::new();
    for line in text.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if fenced || line.starts_with("    ") {
            let line = line.split(" #").next().unwrap_or_default();
            let line = line.split(" > ").next().unwrap_or_default().trim();
            match line.strip_suffix('\\') {
                Some(continued) => code.push_str(continued),
                None => code.extend([line, "\n"]),
            }
        }
    }
    let plain = |line: &str| {
        let line = line.strip_prefix("sudo ").unwrap_or(line);
        line.strip_prefix("target/release/").unwrap_or(line).to_owned()
    };
    code.lines().map(plain).filter(|line| line.starts_with("reach ")).collect()
}

/// Splits a command into words, as a shell does with single quotes.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    for (at, part) in command.split('\'').enumerate() {
        if at % 2 == 1 {
            word.get_or_insert_default().push_str(part);
            continue;
        }
        for c in part.chars() {
            match c.is_whitespace() {
                true => words.extend(word.take()),
                false => word.get_or_insert_default().push(c),
            }
        }
    }
    words.extend(word);
    words
}

#[test]
fn every_documented_command_parses() {
    // The docs name files that a reader would write: stand-ins replace them.
    let free_blocks = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&free_blocks, "Node 0, zone Normal 3 0 7\n").unwrap();
    let stand_ins = [
        ("./mine.toml", root().join("machines/zen4.toml")),
        ("./my-paper", root().join("papers/navarro-2002")),
        ("profile=profile.csv", "profile=huge:heap:1".into()),
        ("blocks=server.txt", format!("blocks={}", free_blocks.path().display()).into()),
    ]
    .map(|(documented, file): (_, PathBuf)| (documented, file.display().to_string()));
    let mut parsed = 0;
    for page in pages() {
        for command in commands(&std::fs::read_to_string(&page).unwrap()) {
            let words = words(&command)
                .into_iter()
                .map(|word| stand_ins.iter().fold(word, |word, (documented, file)| word.replace(documented, file)));
            if let Err(error) = Cli::try_parse_from(words) {
                panic!("{}: `{command}`: {error}", page.display());
            }
            parsed += 1;
        }
    }
    assert!(parsed >= 40, "found {parsed} commands, expected at least 40; has the format of the docs changed?");
}

#[test]
fn words_in_quotes_are_one() {
    assert_eq!(words("reach try --load 'a b' --save '' x"), ["reach", "try", "--load", "a b", "--save", "", "x"]);
}

#[test]
fn an_outdated_command_does_not_parse() {
    let text = "    reach run --timing window --trace a.reach   # old spelling\n";
    let commands = commands(text);
    assert_eq!(commands, ["reach run --timing window --trace a.reach"]);
    assert!(Cli::try_parse_from(commands[0].split_whitespace()).is_err());
}
