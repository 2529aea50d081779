//! One self-contained page for the results of a run: figures, tables, the configuration, and how to repeat it.
//!
//! The crate knows nothing of the simulation. It takes the rows that `--format jsonl` prints, embeds each of them once
//! (`columns`), and adds two libraries and our drawing code (`assets/draw`), which chooses the figures by the names of the
//! columns and metrics. Tables come as text, and need no script.
//!
//! Names of programs and files are untrusted. They enter the page escaped (`escape`), and a policy in the page lets browsers
//! run nothing but the scripts of this crate, and fetch nothing (`policy`).

mod assets;
mod columns;
mod escape;
mod policy;

use columns::columns;
use escape::{json_in_html, text};
use serde_json::value::RawValue;
use std::fmt::Write;

/// What a page shows.
#[derive(Clone, Debug, Default)]
pub struct Page<'a> {
    /// What ran, such as a program and its arguments: the heading.
    pub title: String,
    /// Sentences below it: sizes, and what readers must know of these results.
    pub lead: Vec<String>,
    /// The main values.
    pub tables: Vec<Table>,
    /// Rows of results, each a JSON object on a line of its own.
    pub rows: &'a str,
    /// All that the results depend on: a JSON object. `None` if the command tells all.
    pub configuration: Option<&'a str>,
    /// The command that repeats the run, for a shell.
    pub command: String,
    /// The version of the program that made the page.
    pub version: &'a str,
}

/// A table; its first column has the names of its rows.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// The names of its columns; a line break in a name is a place to break it.
    pub header: Vec<String>,
    /// The cells of each row.
    pub rows: Vec<Vec<String>>,
    /// Remarks on it.
    pub notes: Vec<String>,
}

impl Page<'_> {
    /// Returns the page.
    ///
    /// # Errors
    /// If a row or the configuration is no JSON object.
    pub fn html(&self) -> Result<String, serde_json::Error> {
        let rows = columns(self.rows)?;
        let scripts = assets::scripts();
        let policy = policy::policy(&scripts);
        let mut out = String::with_capacity(700_000 + rows.len());
        let title = text(&self.title);
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta name=\"generator\" content=\"Reach {version}\">\n\
             <title>{title} – Reach</title>\n<style>\n{style}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n",
            version = text(self.version),
            style = assets::STYLE,
        );
        self.lead.iter().for_each(|line| out += &format!("<p>{}</p>\n", text(line)));
        out += "</header>\n<main>\n";
        self.tables.iter().for_each(|table| table.write(&mut out));
        out += "<section id=\"figures\" aria-label=\"Figures\">\n\
                <noscript><p>The figures need JavaScript. The tables do not.</p></noscript>\n</section>\n";
        self.write_repeat(&mut out)?;
        out += "</main>\n";
        let _ = writeln!(out, "<script type=\"application/json\" id=\"rows\">{}</script>", json_in_html(&rows));
        scripts.iter().for_each(|script| out += &format!("<script>{script}</script>\n"));
        out += "</body>\n</html>\n";
        Ok(out)
    }

    /// Adds how to repeat the run, the configuration, and the licences of the libraries.
    fn write_repeat(&self, out: &mut String) -> Result<(), serde_json::Error> {
        let command = text(&self.command);
        *out +=
            "<section id=\"repeat\" aria-labelledby=\"repeat-title\">\n<h2 id=\"repeat-title\">How to repeat</h2>\n";
        let _ = writeln!(out, "<pre tabindex=\"0\"><code>{command}</code></pre>");
        let _ = writeln!(out, "<p>Reach {}</p>", text(self.version));
        if let Some(configuration) = self.configuration {
            let configuration: serde_json::Value = serde_json::from_str(configuration)?;
            let hash = configuration.get("hash").and_then(|hash| hash.as_str());
            hash.iter().for_each(|hash| *out += &format!("<p>configuration {}</p>\n", text(hash)));
            let pretty = serde_json::to_string_pretty(&configuration)?;
            let _ = writeln!(
                out,
                "<details id=\"configuration\"><summary>Resolved configuration</summary>\n<pre tabindex=\"0\">{}</pre></details>",
                text(&pretty)
            );
        }
        let _ = writeln!(
            out,
            "<details><summary>Licences of the libraries in this page</summary>\n<pre tabindex=\"0\">{}</pre></details>\n</section>",
            text(assets::LICENCES)
        );
        Ok(())
    }
}

impl Table {
    fn write(&self, out: &mut String) {
        *out += "<section class=\"table\">\n<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"";
        *out += &text(&self.caption);
        *out += "\">\n<table>\n<caption>";
        *out += &text(&self.caption);
        *out += "</caption>\n<thead><tr>";
        self.header.iter().for_each(|name| *out += &format!("<th scope=\"col\">{}</th>", text(name)));
        *out += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            *out += "<tr>";
            for (at, cell) in row.iter().enumerate() {
                let cell = text(cell);
                *out += &if at == 0 { format!("<th scope=\"row\">{cell}</th>") } else { format!("<td>{cell}</td>") };
            }
            *out += "</tr>\n";
        }
        *out += "</tbody>\n</table>\n</div>\n";
        self.notes.iter().for_each(|note| *out += &format!("<p class=\"note\">{}</p>\n", text(note)));
        *out += "</section>\n";
    }
}

/// Checks that `row` is a JSON object, and returns its fields in their order, each value as it is written.
fn fields(row: &str) -> Result<Vec<(String, Box<RawValue>)>, serde_json::Error> {
    serde_json::from_str(row).map(|columns::Row(fields)| fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTACK: &str = "</script><script>alert(1)</script>";

    fn attacked() -> String {
        let row = serde_json::json!({ "program": ATTACK, "metric": "cycles", "value": 1 }).to_string();
        let table = Table {
            caption: ATTACK.into(),
            header: vec![ATTACK.into(), "a\nb".into()],
            rows: vec![vec![ATTACK.into(), "\" onload=\"alert(1)".into()]],
            notes: vec![ATTACK.into()],
        };
        let configuration = serde_json::json!({ "hash": ATTACK, "<b>": ATTACK }).to_string();
        let page = Page {
            title: ATTACK.into(),
            lead: vec![ATTACK.into()],
            tables: vec![table],
            rows: &row,
            configuration: Some(&configuration),
            command: ATTACK.into(),
            version: ATTACK,
        };
        page.html().unwrap()
    }

    #[test]
    fn text_from_outside_adds_no_markup() {
        let page = attacked();
        let scripts = assets::scripts().len();
        assert_eq!(page.matches("<script").count(), scripts + 1, "the scripts and the rows");
        assert_eq!(page.matches("</script>").count(), scripts + 1);
        assert!(!page.contains("<script>alert"));
        assert!(!page.contains("\" onload"));
        assert!(!page.contains("<b>"));
    }

    #[test]
    fn nothing_is_fetched() {
        let page = attacked();
        for attribute in [" src=", " href=", "@import", "url("] {
            let own = page.replace(assets::scripts()[0].as_str(), "").replace(assets::scripts()[1].as_str(), "");
            assert!(!own.contains(attribute), "{attribute}");
        }
        assert!(page.contains("default-src 'none'"));
    }

    #[test]
    fn a_line_that_is_no_object_is_refused() {
        assert!(Page { rows: "[1]\n", ..Page::default() }.html().is_err());
        assert!(Page { rows: "{\"a\":1}\n{\"a\"", ..Page::default() }.html().is_err());
    }
}
