//! Reference pages for the documentation's site, from the program's own definitions: commands, machines, systems and
//! synthetic programs. Metrics have docs/metrics.md.

use crate::args::Cli;
use clap::{Command, CommandFactory};
use reach_lab::machine;
use reach_trace::synthetic;
use std::fmt::Write;

/// Returns the pages: names of files, and their text in Markdown.
pub fn pages() -> [(&'static str, String); 4] {
    [("commands.md", commands()), ("machines.md", machines()), ("systems.md", systems()), ("programs.md", programs())]
}

/// The help of every command and of the commands below it.
fn commands() -> String {
    let mut out = heading("Commands", "What `--help` prints.");
    let mut reach = Cli::command().term_width(100);
    reach.build();
    add_help(&reach, &mut out);
    out
}

fn add_help(command: &Command, out: &mut String) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let help = command.clone().render_long_help();
    let lines: Vec<_> = help.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
    _ = write!(out, "\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
    let shown = |below: &&Command| !below.is_hide_set() && below.get_name() != "help";
    for below in command.get_subcommands().filter(shown) {
        add_help(below, out);
    }
}

fn machines() -> String {
    let about = "The presets that `--machine` takes. `reach machine show NAME` prints every value with its source, and \
                 [machines](../docs/machines.md) describes the keys.";
    let rows = machine::list().map(|machine| [code(machine.name), machine.about.to_owned()]);
    heading("Machines", about) + "\n" + &table(["machine", "what it describes"], rows)
}

fn systems() -> String {
    let about = "What `--system` takes, with options after a colon: `linux-thp:khugepaged=off,defrag=always`.";
    let mut out = heading("Systems", about);
    let common = reach_systems::PAGE_TABLE;
    for option in [common, reach_systems::PAGING] {
        let unless = if option.name == common.name { " unless said otherwise" } else { "" };
        _ = write!(
            out,
            "\nEvery system takes the option `{}`, {}: {}. The default is `{}`{unless}.\n",
            option.name, option.summary, option.accepts, option.default
        );
    }
    for system in reach_systems::list() {
        _ = write!(out, "\n## {}\n\n{}", system.name, sentence(system.summary));
        if let Some(published) = system.published {
            _ = write!(out, " Published: {published}");
        }
        out.push('\n');
        if system.page_table.name() != common.default {
            _ = write!(out, "\nIts default is `{}={}`.\n", common.name, system.page_table.name());
        }
        let Ok(resolved) = reach_systems::resolve(system.name) else { continue };
        let rows = system.settings.iter().map(|setting| {
            let default = resolved.settings().iter().find(|(name, _)| *name == setting.name);
            [
                code(setting.name),
                code(default.map_or("", |(_, value)| value)),
                setting.accepts.to_string(),
                setting.summary.into(),
            ]
        });
        if !system.settings.is_empty() {
            out += "\n";
            out += &table(["option", "default", "accepts", "meaning"], rows);
        }
    }
    out
}

fn programs() -> String {
    let about = "What `--program` takes, with parameters after a colon: `gups:bytes=4G,updates=1M`.";
    let mut out = heading("Synthetic programs", about);
    for program in synthetic::list() {
        _ = write!(out, "\n## {}\n\n{}\n\n", program.name, sentence(program.summary));
        let rows = program.parameters.iter().map(|parameter| {
            [code(parameter.name), code(parameter.default), parameter.kind.to_string(), parameter.summary.into()]
        });
        out += &table(["parameter", "default", "accepts", "meaning"], rows);
    }
    out
}

fn heading(title: &str, about: &str) -> String {
    format!("# {title}\n\n{about}\n")
}

/// Makes a sentence of a summary.
fn sentence(summary: &str) -> String {
    let mut letters = summary.trim_end_matches('.').chars();
    let first = letters.next().map(|first| first.to_uppercase());
    first.into_iter().flatten().chain(letters).chain(['.']).collect()
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

/// Returns a table in Markdown.
fn table<const N: usize>(header: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let line = |cells: &[String]| {
        // A bar would end the cell, and what looks like an element of HTML would not be shown.
        let escaped = cells.iter().map(|cell| cell.replace('|', "\\|").replace('<', "&lt;"));
        format!("| {} |\n", escaped.collect::<Vec<_>>().join(" | "))
    };
    let mut out = line(&header.map(str::to_owned)) + &format!("|{}\n", "---|".repeat(N));
    rows.for_each(|row| out += &line(&row));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_every_definition() {
        let [commands, machines, systems, programs] = pages().map(|(_, text)| text);
        for part in ["## reach compare\n", "## reach machine probe\n", "## reach text bench\n", "--precision"] {
            assert!(commands.contains(part), "{part}");
        }
        assert!(!commands.contains("guardian"), "hidden");
        assert!(machine::list().all(|machine| machines.contains(&format!("| `{}` |", machine.name))));
        for system in reach_systems::list() {
            let (_, section) = systems.split_once(&format!("\n## {}\n", system.name)).expect(system.name);
            assert!(system.settings.iter().all(|setting| section.contains(&format!("| `{}` |", setting.name))));
        }
        assert!(synthetic::list().iter().all(|program| programs.contains(&format!("\n## {}\n", program.name))));
    }

    #[test]
    fn a_summary_becomes_a_sentence() {
        assert_eq!([sentence("red"), sentence("Linux's."), sentence("")], ["Red.", "Linux's.", "."]);
    }

    #[test]
    fn a_table_keeps_bars_and_brackets_in_their_cells() {
        let rows = [["a|b".to_owned(), "<N>".to_owned()]];
        assert_eq!(table(["x", "y"], rows.into_iter()), "| x | y |\n|---|---|\n| a\\|b | &lt;N> |\n");
    }
}
