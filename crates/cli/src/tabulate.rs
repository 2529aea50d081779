//! Lays out text and numbers for people, in the width of the terminal, and never cuts a word or a number.
//!
//! A table that does not fit becomes a list: each row is a paragraph with one line for each column.

mod layout;
mod width;
mod wrap;

pub use width::{for_a_file, width};

use layout::{Align, Table};
use wrap::{length, wrapped};

/// The least room for a description beside its name; with less it goes below.
const DESCRIPTION: usize = 24;

/// Lays out names, each with its description.
pub fn definitions<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pairs: Vec<_> = pairs.into_iter().collect();
    let name = pairs.iter().map(|(name, _)| length(name)).max().unwrap_or(0) + 2;
    if name + DESCRIPTION <= width() {
        return pairs.iter().map(|(name_text, text)| hanging(&format!("{name_text:<name$}"), text)).collect();
    }
    pairs.iter().map(|(name, text)| paragraph("", name) + &hanging("    ", text)).collect()
}

/// Lays out columns of text under a header. Columns between the first and the last are at most 26 characters wide as long as
/// words allow it.
pub fn columns<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let header = header.map(str::to_owned).to_vec();
    Table { header, rows: rows.into_iter().map(Vec::from).collect(), align: Align::Left }.draw(width())
}

/// Lays out names at the left and right-aligned numbers, under a header of one or more lines. Long names are wrapped.
pub fn numbers<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    list_of_numbers(header.map(str::to_owned).to_vec(), rows.into_iter().map(Vec::from).collect())
}

/// Like [`numbers`], for a number of columns known only at run time: the header's.
pub fn list_of_numbers(header: Vec<String>, rows: Vec<Vec<String>>) -> String {
    Table { header, rows, align: Align::Right }.draw(width())
}

/// Returns whether [`list_of_numbers`] is a table, and not a list.
pub fn numbers_fit(header: &[String], rows: &[Vec<String>]) -> bool {
    Table { header: header.to_vec(), rows: rows.to_vec(), align: Align::Right }.fits(width())
}

/// Lays out a grid of numbers. One that does not fit is split into parts, one below the other, each with the first column.
/// Rows without a number in a part are left out of it.
pub fn grid(header: &[String], rows: &[Vec<String>]) -> String {
    let of = |columns: &[usize]| {
        let pick = |row: &Vec<String>| columns.iter().map(|&at| row[at].clone()).collect::<Vec<_>>();
        let rows = rows.iter().map(pick).filter(|row| row[1..].iter().any(|cell| !cell.is_empty()));
        Table { header: pick(&header.to_vec()), rows: rows.collect(), align: Align::Right }
    };
    let (mut parts, mut part) = (Vec::new(), vec![0]);
    for column in 1..header.len() {
        part.push(column);
        if part.len() > 2 && !of(&part).fits(width()) {
            part.pop();
            parts.push(std::mem::replace(&mut part, vec![0, column]));
        }
    }
    parts.push(part);
    parts.iter().map(|part| of(part).draw(width())).collect::<Vec<_>>().join("\n")
}

/// Lays out `text` in lines of whole words. `mark` precedes the first line, and the others are indented as far.
pub fn paragraph(mark: &str, text: &str) -> String {
    hanging(mark, text)
}

/// Lays out a name of `name` columns, a right-aligned value of `value` columns, and a remark. In a narrow terminal the remark
/// goes below.
pub fn fact(name: &str, value: &str, remark: &str) -> String {
    const NAME: usize = 29;
    const VALUE: usize = 15;
    let room = width();
    let name_width = NAME.min(room.saturating_sub(VALUE + 4));
    let names = wrapped(name, name_width);
    let mut first = format!("  {:<name_width$}{value:>VALUE$}", names[0]);
    let beside = room.saturating_sub(length(&first) + 2);
    let (mut out, below) = if remark.is_empty() || beside >= DESCRIPTION.min(length(remark)) {
        first += "  ";
        (if remark.is_empty() { first.trim_end().to_owned() + "\n" } else { hanging(&first, remark) }, "")
    } else {
        (first.trim_end().to_owned() + "\n", remark)
    };
    names[1..].iter().for_each(|name| out += &format!("  {name}\n"));
    if !below.is_empty() {
        out += &hanging("    ", below);
    }
    out
}

/// Joins `facts` by two spaces, as many on a line as fit. A fact that fits on a line is never broken.
pub fn line_of(facts: &[String]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for fact in facts {
        match lines.last_mut() {
            Some(line) if length(line) + 2 + length(fact) <= width() => *line += &format!("  {fact}"),
            _ => lines.push(fact.clone()),
        }
    }
    lines.iter().map(|line| paragraph("", line)).collect()
}

/// Cuts `text` to one line, after a whole word if there are several.
pub fn clipped(text: &str) -> String {
    let room = width();
    if length(text) <= room {
        return text.to_owned();
    }
    wrapped(text, room - 2).swap_remove(0) + " …"
}

/// Wraps the lines of `text` that are too long, indented by two more than they begin. Other lines stay as they are.
pub fn fitted(text: &str) -> String {
    let fit = |line: &str| {
        if length(line) <= width() {
            return format!("{line}\n");
        }
        let indent = (line.len() - line.trim_start().len()).min(width() / 2);
        let lines = wrapped(line.trim_start(), width() - indent - 2);
        let hang = |(at, part): (usize, String)| format!("{:indent$}{part}\n", "", indent = indent + 2 * at.min(1));
        lines.into_iter().enumerate().map(hang).collect()
    };
    text.lines().map(fit).collect()
}

/// Lays out `text` after `mark`, and indents all but its first line as far as `mark` is long.
fn hanging(mark: &str, text: &str) -> String {
    let indent = length(mark);
    let lines = wrapped(text, width().saturating_sub(indent));
    let line = |(at, line): (usize, &String)| {
        let line = if at == 0 { format!("{mark}{line}") } else { format!("{:indent$}{line}", "") };
        line.trim_end().to_owned() + "\n"
    };
    lines.iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_indented_by_its_mark_and_keeps_words_whole() {
        let text = "word ".repeat(40);
        for mark in ["", "[1] "] {
            let paragraph = paragraph(mark, text.trim_end());
            assert!(paragraph.starts_with(&format!("{mark}word")), "{paragraph}");
            assert!(paragraph.lines().skip(1).all(|line| line.starts_with(&(" ".repeat(mark.len()) + "word"))));
            assert!(paragraph.lines().all(|line| line.len() <= width()));
            assert_eq!(paragraph.matches("word").count(), 40);
        }
    }

    #[test]
    fn a_wide_grid_is_split_into_parts_that_repeat_the_first_column() {
        let header: Vec<String> = ["entries".into()].into_iter().chain((1..=30).map(|n: u32| n.to_string())).collect();
        let rows =
            [64, 128].map(|n| vec![n.to_string()].into_iter().chain((1..=30).map(|_| "1.23 M".into())).collect());
        let grid = grid(&header, &rows);
        assert!(grid.matches("entries").count() > 1, "{grid}");
        assert_eq!(grid.matches("1.23 M").count(), 60);
        assert!(grid.lines().all(|line| line.len() <= width()), "{grid}");
    }

    #[test]
    fn a_clipped_text_ends_after_a_word() {
        assert_eq!(clipped("gcc -c"), "gcc -c");
        let long = clipped(&"argument ".repeat(20));
        assert!(long.ends_with("argument …") && length(&long) <= width(), "{long}");
    }

    #[test]
    fn only_lines_that_are_too_long_are_wrapped() {
        let text = format!("short\n  {}\n", "long ".repeat(30).trim_end());
        let fitted = fitted(&text);
        assert!(fitted.starts_with("short\n  long long"), "{fitted}");
        assert!(fitted.lines().skip(2).all(|line| line.starts_with("    long")), "{fitted}");
        assert!(fitted.lines().all(|line| line.len() <= width()));
    }
}
