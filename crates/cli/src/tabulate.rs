//! Lays out text and numbers in columns, at most [`WIDTH`] characters wide.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};

/// Width of all output for people, in characters.
pub const WIDTH: usize = 80;

/// Lays out names, each with its description.
pub fn definitions<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut table = plain();
    pairs.into_iter().for_each(|(name, text)| {
        table.add_row([name, text]);
    });
    finish(table)
}

/// Lays out `text` in lines of whole words. `mark` precedes the first line, and the others are indented as far.
pub fn paragraph(mark: &str, text: &str) -> String {
    let mut table = plain();
    table.add_row([mark, text]);
    for (column, width) in table.column_iter_mut().zip([mark.len(), WIDTH - mark.len()]) {
        column.set_padding((0, 0));
        column.set_constraint(match width {
            0 => ColumnConstraint::Hidden,
            width => ColumnConstraint::Absolute(Width::Fixed(width as u16)),
        });
    }
    lines(&table)
}

/// Lays out columns of text under a header. The last column is wrapped; the others are as wide as their content, up to
/// [`COLUMN`].
pub fn columns<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = plain();
    table.set_header(header);
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    finish(table)
}

/// Lays out names at the left and right-aligned numbers, under a header of one or more lines. Long names are wrapped.
pub fn numbers<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = plain();
    table.set_header(header);
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    align_numbers(&mut table);
    lines(&table)
}

/// Like [`numbers`], for a number of columns known only at run time: the header's.
pub fn grid(header: Vec<String>, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = plain();
    table.set_header(header);
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    align_numbers(&mut table);
    lines(&table)
}

/// Aligns all columns but the first to the right.
fn align_numbers(table: &mut Table) {
    let last = table.column_count().saturating_sub(1);
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if i == last { 0 } else { 2 }));
        if i > 0 {
            column.set_cell_alignment(CellAlignment::Right);
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
}

/// Returns an empty table without borders.
fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH as u16);
    table
}

/// Greatest width of the columns between the first and the last, in characters.
const COLUMN: u16 = 26;

fn finish(mut table: Table) -> String {
    let last = table.column_count().saturating_sub(1);
    let widths = table.column_max_content_widths();
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if i == last { 0 } else { 2 }));
        if i != last {
            let width = if i == 0 { widths[i] } else { widths[i].min(COLUMN) };
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width + 2)));
        }
    }
    lines(&table)
}

fn lines(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Cuts `text` to one line of at most [`WIDTH`] characters.
pub fn clipped(text: &str) -> String {
    if text.chars().count() <= WIDTH {
        return text.to_owned();
    }
    text.chars().take(WIDTH - 1).chain(['…']).collect()
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
            assert!(paragraph.lines().all(|line| line.len() <= WIDTH));
            assert_eq!(paragraph.matches("word").count(), 40);
        }
    }
}
