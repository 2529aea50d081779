//! Tables: the widths of columns, and lists in place of tables that do not fit.

use super::wrap::{BREAKS, length, wrapped};

/// Columns between two columns of a table.
const GAP: usize = 2;
/// Greatest width of text columns between the first and the last, if words allow it.
const MIDDLE: usize = 26;
/// Least width of a column of wrapped text; a table that leaves less becomes a list.
const TEXT: usize = 16;

/// Length of words that a table keeps whole in its first column, which has names, and in the others; longer ones, such as
/// addresses of pages, may be broken after punctuation.
const LONG: [usize; 2] = [40, 20];

/// How the cells of all columns but the first are aligned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text, which is wrapped.
    Left,
    /// Numbers, which are not.
    Right,
}

/// A table. The cells of each row are as many as those of the header.
pub struct Table {
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
    pub align: Align,
}

/// Returns the length of the longest line of `text`.
fn full(text: &str) -> usize {
    text.split('\n').map(length).max().unwrap_or(0)
}

/// Returns the least width that breaks no word of `text`, apart from those longer than `long` that have punctuation to break
/// after.
fn longest_word(text: &str, long: usize) -> usize {
    let least = |word: &str| match length(word) {
        whole if whole <= long => whole,
        _ => word.split_inclusive(BREAKS).map(length).max().unwrap_or(0).max(long),
    };
    // Wrapped lines keep the indentation of a cell.
    let indent = text.len() - text.trim_start().len();
    indent + text.split_whitespace().map(least).max().unwrap_or(0)
}

impl Table {
    /// Lays the table out in lines of at most `room` characters.
    pub fn draw(&self, room: usize) -> String {
        match self.widths(room) {
            Some(widths) => self.table(&widths),
            None => self.list(room),
        }
    }

    /// Returns whether the table fits without becoming a list.
    pub fn fits(&self, room: usize) -> bool {
        self.widths(room).is_some()
    }

    fn column(&self, at: usize) -> impl Iterator<Item = &str> {
        let header = self.header.get(at).map(String::as_str);
        header.into_iter().chain(self.rows.iter().map(move |row| row[at].as_str()))
    }

    /// Returns the width of each column, and `None` if `room` is too narrow.
    fn widths(&self, room: usize) -> Option<Vec<usize>> {
        let columns = self.header.len();
        let room = room.checked_sub(GAP * columns.saturating_sub(1))?;
        let wanted: Vec<usize> = (0..columns).map(|at| self.column(at).map(full).max().unwrap_or(0)).collect();
        let least: Vec<usize> = (0..columns).map(|at| self.least(at, wanted[at])).collect();
        let mut widths = wanted.clone();
        if self.align == Align::Left {
            for at in 1..columns.saturating_sub(1) {
                widths[at] = wanted[at].min(MIDDLE.max(least[at]));
            }
        }
        // Columns give way in this order: the last one of text, the first one, then the others from the right.
        let last = columns.saturating_sub(1);
        let order = match self.align {
            Align::Left => [last, 0].into_iter().chain((1..last).rev()).collect::<Vec<_>>(),
            Align::Right => [0].into_iter().chain((1..columns).rev()).collect(),
        };
        for at in order {
            let over = widths.iter().sum::<usize>().saturating_sub(room);
            widths[at] -= over.min(widths[at].saturating_sub(least[at]));
        }
        (widths.iter().sum::<usize>() <= room).then_some(widths)
    }

    /// Returns the least width of a column in a table. Numbers stay whole; their headers are wrapped.
    fn least(&self, at: usize, wanted: usize) -> usize {
        let words = self.column(at).map(|text| longest_word(text, LONG[at.min(1)])).max().unwrap_or(0);
        match self.align {
            _ if at == 0 => words.max(TEXT.min(wanted)),
            Align::Right => words.max(self.rows.iter().map(|row| full(&row[at])).max().unwrap_or(0)),
            Align::Left => words.max(TEXT.min(wanted)),
        }
    }

    fn table(&self, widths: &[usize]) -> String {
        let mut out = String::new();
        if self.header.iter().any(|cell| !cell.is_empty()) {
            out += &self.line(&self.header, widths);
        }
        self.rows.iter().for_each(|row| out += &self.line(row, widths));
        out
    }

    /// Lays out one row, of as many lines as its longest cell.
    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let cells: Vec<Vec<String>> = cells.iter().zip(widths).map(|(cell, &width)| wrapped(cell, width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        let mut out = String::new();
        for at in 0..height {
            let mut line = String::new();
            for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
                let text = cell.get(at).map_or("", String::as_str);
                let padding = " ".repeat(width.saturating_sub(length(text)));
                line += if column == 0 { "" } else { "  " };
                if self.align == Align::Right && column > 0 {
                    line += &(padding + text);
                } else {
                    line += &(text.to_owned() + &padding);
                }
            }
            out += line.trim_end();
            out.push('\n');
        }
        out
    }

    /// Lays the table out as a list: the first cell of each row, then its others, each after the header of its column.
    fn list(&self, room: usize) -> String {
        let mut out = String::new();
        let mut add = |indent: usize, text: &str| {
            for line in wrapped(text, room.saturating_sub(indent)) {
                out += format!("{:indent$}{line}", "").trim_end();
                out.push('\n');
            }
        };
        let corner = self.header.first().map_or("", |corner| corner.trim_end());
        if !corner.is_empty() {
            add(0, corner);
        }
        let names: Vec<String> = self.header.iter().map(|name| name.replace('\n', " ")).collect();
        for row in &self.rows {
            let outer = row[0].len() - row[0].trim_start().len();
            add(0, &row[0]);
            let shown: Vec<usize> = (1..row.len()).filter(|&at| !row[at].is_empty()).collect();
            let value = shown.iter().map(|&at| full(&row[at])).max().unwrap_or(0);
            let name = shown.iter().map(|&at| length(&names[at])).max().unwrap_or(0);
            let indent = outer + 2;
            for &at in &shown {
                let inner = room.saturating_sub(indent);
                match self.align {
                    // Numbers stay whole beside their names.
                    Align::Right if value + GAP + TEXT <= inner => {
                        let name = name.min(inner - value - GAP);
                        let lines = wrapped(&names[at], name);
                        let (first, more) = lines.split_first().expect("there is a line");
                        add(indent, &format!("{}{}{:>value$}", first, " ".repeat(name - length(first) + GAP), row[at]));
                        more.iter().for_each(|line| add(indent + 2, line));
                    }
                    _ if names[at].is_empty() => add(indent, &row[at]),
                    _ => add(indent, &format!("{}: {}", names[at], row[at])),
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(align: Align) -> Table {
        let text = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        Table {
            header: text(["machine", "L2 TLB misses\nper 1000 instr", "peak\nmemory"]),
            rows: vec![text(["base", "12.34 ±0.56", "36 MB"]), text(["karakostas-2015-rmm", "0.01 ±0.01", "1.5 GB"])],
            align,
        }
    }

    #[test]
    fn no_line_is_longer_than_the_room_and_no_word_is_cut() {
        for align in [Align::Left, Align::Right] {
            for room in 24..=200 {
                let drawn = table(align).draw(room);
                assert!(drawn.lines().all(|line| length(line) <= room), "{room}:\n{drawn}");
                for word in ["machine", "misses", "base", "karakostas-2015-rmm", "12.34", "0.01", "1.5"] {
                    let words: Vec<&str> = drawn.split(|c: char| c.is_whitespace() || c == ':').collect();
                    assert!(words.contains(&word), "{word} at {room}:\n{drawn}");
                }
            }
        }
    }

    #[test]
    fn numbers_stay_whole_and_headers_are_wrapped_before_a_table_becomes_a_list() {
        assert_eq!(
            table(Align::Right).draw(80),
            "machine               L2 TLB misses    peak\n\
             \x20                    per 1000 instr  memory\n\
             base                    12.34 ±0.56   36 MB\n\
             karakostas-2015-rmm      0.01 ±0.01  1.5 GB\n"
        );
        assert!(table(Align::Right).fits(42) && !table(Align::Right).fits(38));
        assert_eq!(
            table(Align::Right).draw(38),
            "machine\n\
             base\n\
             \x20 L2 TLB misses per 1000   12.34 ±0.56\n\
             \x20   instr\n\
             \x20 peak memory                    36 MB\n\
             karakostas-2015-rmm\n\
             \x20 L2 TLB misses per 1000    0.01 ±0.01\n\
             \x20   instr\n\
             \x20 peak memory                   1.5 GB\n"
        );
    }
}
