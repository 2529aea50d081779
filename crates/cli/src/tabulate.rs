//! Text in columns, within 80 of them.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};

/// The width that everything fits in.
pub const WIDTH: usize = 80;

/// Names, and what each is.
pub fn definitions<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut table = plain();
    pairs.into_iter().for_each(|(name, text)| {
        table.add_row([name, text]);
    });
    finish(table)
}

/// Columns of text under a header. The last is wrapped; the others are as wide as they need to be, within limits.
pub fn columns<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = plain();
    table.set_header(header);
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    finish(table)
}

/// Columns under a header of one line or more, names on the left and numbers on the right. Names are wrapped where
/// there is no room for them.
pub fn numbers<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = plain();
    table.set_header(header);
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    to_the_right(&mut table);
    lines(&table)
}

/// The same with as many columns as the header has.
pub fn grid(header: Vec<String>, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = plain();
    table.set_header(header);
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    to_the_right(&mut table);
    lines(&table)
}

fn to_the_right(table: &mut Table) {
    let last = table.column_count().saturating_sub(1);
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if i == last { 0 } else { 2 }));
        if i > 0 {
            column.set_cell_alignment(CellAlignment::Right);
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH as u16);
    table
}

/// No column between the first and the last is wider than this.
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

/// `text` on one line of at most [`WIDTH`] columns.
pub fn clipped(text: &str) -> String {
    if text.chars().count() <= WIDTH {
        return text.to_owned();
    }
    text.chars().take(WIDTH - 1).chain(['…']).collect()
}
