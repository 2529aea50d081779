//! `--html`: results as a page of figures and tables.

mod command;
mod file;

pub use file::HtmlFile;

use crate::experiment::Finished;
use crate::{output, selected, table};
use reach_lab::{ALL, Header, Value, memory_rows};
use reach_page::Table;

/// What a page shows, with the text that it is made of.
#[derive(Default)]
pub struct Content {
    /// The heading.
    pub title: String,
    /// Sentences below it.
    pub lead: Vec<String>,
    /// The main values.
    pub tables: Vec<Table>,
    /// Rows as `--format jsonl` prints them, without the header.
    pub rows: String,
    /// The resolved configuration as JSON; empty if the command tells all.
    pub configuration: String,
}

impl Content {
    /// Returns the page.
    fn html(&self) -> String {
        let page = reach_page::Page {
            title: self.title.clone(),
            lead: self.lead.clone(),
            tables: self.tables.clone(),
            rows: &self.rows,
            configuration: Some(self.configuration.as_str()).filter(|json| !json.is_empty()),
            command: command::line(std::env::args_os()),
            version: env!("CARGO_PKG_VERSION"),
        };
        page.html().expect("rows and configurations are JSON objects")
    }
}

/// Returns the content of the page of `reach compare`.
pub fn comparison(finished: &Finished) -> Content {
    let tables = finished.report.machines().map(|outcomes| {
        let (header, rows) = table::all_cells(outcomes, finished.timing);
        let notes = table::notes(outcomes).map(|(mark, text)| mark + text);
        let notes = notes.chain(table::overhead(finished, &outcomes[0].machine)).collect();
        Table { caption: outcomes[0].machine.clone(), header, rows, notes }
    });
    let mut content = Content { tables: tables.collect(), ..of_metrics(finished) };
    content.lead.extend(table::remarks(finished).into_iter().map(|(mark, text)| mark + &text));
    content.lead.extend(table::sample(&finished.report));
    content
}

/// Returns the content of the page of `reach run`.
pub fn simulation(finished: &Finished) -> Content {
    let outcome = &finished.report.outcomes[0];
    let rows = finished.rows();
    let zero = |value: Value| value.as_f64() == 0.0;
    // Curves have hundreds of rows, and a figure of their own.
    let shown = rows.iter().filter(|row| row.process == ALL && !zero(row.value) && !row.metric.starts_with("curve."));
    let table = Table {
        caption: format!("{} under {}, metrics that are not 0", outcome.machine, outcome.system),
        header: ["metric", "value", "unit"].map(str::to_owned).into(),
        rows: shown.map(|row| vec![row.metric.clone(), selected::value(row), selected::unit(row).to_owned()]).collect(),
        notes: table::notes(&finished.report.outcomes).map(|(mark, text)| mark + text).collect(),
    };
    let mut content = Content { tables: vec![table], ..of_metrics(finished) };
    content.lead.extend(table::sample(&finished.report));
    content
}

/// Returns content with the program, the rows and the configuration.
fn of_metrics(finished: &Finished) -> Content {
    let points = finished.report.outcomes.iter().flat_map(|outcome| memory_rows(outcome, &finished.report.program));
    let rows = output::json_lines(&finished.rows()) + &output::json_lines(&points.collect::<Vec<_>>());
    Content { rows, ..of_program(finished) }
}

/// Returns content with the program and the configuration, without tables and rows.
pub fn of_program(finished: &Finished) -> Content {
    let report = &finished.report;
    Content {
        title: report.program.clone(),
        lead: [table::size(report).join(", ")].into_iter().chain(findings(&finished.header)).collect(),
        configuration: output::json(&finished.header),
        ..Content::default()
    }
}

/// Returns what readers must know about the program.
fn findings(header: &Header) -> impl Iterator<Item = String> {
    let of_program = header.findings.iter().filter(|finding| finding.get("system").is_none());
    of_program.filter_map(|finding| finding.get("text")?.as_str().map(str::to_owned))
}
