//! The page `docs/metrics.md`.

use super::{Group, groups, pattern};

const HEAD: &str = "\
# Metrics

Every row of results (`--format jsonl` or `csv`) has one metric, its unit and its value. This page defines all of them. It is
generated from the table in `crates/lab/src/metrics/definitions`, which also checks the units of rows and serves two commands:

    reach explain wcpi            # one definition, in the terminal
    reach compare --metric 'wcpi*,walks' --program gups:bytes=64M    # these metrics only

Counts of the processor cover what is measured: all of the program, or the part after `--fast-forward`. With `--sample` they
are estimates of that. Counts of the operating system (faults, superpages, memory and what single systems count) cover the whole
program. Rows of one process have its number and name in the column `process`; those of all together have `all`.

Parts of names in angle brackets stand for others:

";

/// Returns the page.
pub fn page() -> String {
    let mut out = HEAD.to_owned();
    out += "| in names | stands for |\n|---|---|\n";
    for (name, meaning) in pattern::placeholders() {
        out += &format!("| `{name}` | {meaning} |\n");
    }
    groups().iter().for_each(|group| out += &section(group));
    out
}

fn section(group: &Group) -> String {
    let mut out = format!("\n## {}\n\n", group.title);
    if !group.about.is_empty() {
        out += &filled(group.about, 120);
        out.push('\n');
    }
    out += "| metric | unit | meaning | from | given by |\n|---|---|---|---|---|\n";
    for definition in group.definitions {
        let cells = [definition.meaning, definition.source(), definition.given_by()];
        // A bar would end the cell.
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        out += &format!("| `{}` | {} | {} |\n", definition.name, definition.unit, cells.join(" | "));
    }
    out
}

/// Breaks `text` into lines of at most `width` characters.
fn filled(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut room = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if length + 1 > room {
            out += if out.is_empty() { "" } else { "\n" };
            room = width.saturating_sub(length);
        } else {
            out.push(' ');
            room -= length + 1;
        }
        out += word;
    }
    out + "\n"
}
