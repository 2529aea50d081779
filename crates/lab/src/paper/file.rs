//! The form of a paper's files, and the checks of what they hold.

use super::columns::{AbsentCells, Column};
use super::differences::{Defaults, Differences};
use super::experiment::PaperExperiment;
use super::figure::Figure;
use super::item::MissingItem;
use super::measure::Measure;
use super::overall::Overall;
use super::quick::Quick;
use super::relation::Relation;
use super::sweep::Sweep;
use super::syntax::parse;
use indexmap::IndexMap;
use serde::Deserialize;
use std::collections::HashSet;

/// `paper.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MainFile {
    citation: String,
    base: Defaults,
    /// Further files of the paper's folder. Their experiments come first, and may refer to those of earlier files.
    #[serde(default)]
    tables: Vec<String>,
    #[serde(default)]
    experiment: Vec<Differences>,
    #[serde(default)]
    missing: Vec<MissingItem>,
    quick: Option<Quick>,
}

/// A file of a published table: a row is an experiment, a column an item that each row may have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableFile {
    /// Systems of all its experiments, beyond the defaults.
    #[serde(default)]
    systems: IndexMap<String, String>,
    #[serde(default)]
    column: Vec<Column>,
    #[serde(default)]
    experiment: Vec<Differences>,
    #[serde(default)]
    sweep: Vec<Sweep>,
    #[serde(default)]
    overall: Vec<Overall>,
    #[serde(default)]
    relation: Vec<Relation>,
    #[serde(default)]
    absent: Vec<AbsentCells>,
    #[serde(default)]
    figure: Vec<Figure>,
}

/// The content of a paper's files.
#[derive(Default)]
pub(super) struct Content {
    pub citation: String,
    pub experiments: Vec<PaperExperiment>,
    pub overall: Vec<Overall>,
    pub relations: Vec<Relation>,
    pub missing: Vec<MissingItem>,
    pub figures: Vec<Figure>,
    pub quick: Option<Quick>,
}

/// Reads `paper.toml` from `text`, and the files that it names; `open` gives the text of another file of the paper.
pub(super) fn read(text: &str, open: impl Fn(&str) -> Result<String, String>) -> Result<Content, String> {
    let file: MainFile = parse(text)?;
    let mut content = Content { citation: file.citation, quick: file.quick, ..Content::default() };
    let mut columns = Vec::new();
    for name in &file.tables {
        let text = open(name)?;
        content.add_table(&text, &file.base, &mut columns).map_err(|what| format!("{name}: {what}"))?;
    }
    for differences in file.experiment {
        content.add_experiment(&file.base, differences, &[])?;
    }
    content.missing.extend(file.missing);
    content.check()?;
    Ok(content)
}

impl Content {
    /// Adds what the file of a table holds. `columns` are those of earlier files, and gain those of this one.
    fn add_table(&mut self, text: &str, base: &Defaults, columns: &mut Vec<Column>) -> Result<(), String> {
        let table: TableFile = parse(text)?;
        columns.extend(table.column);
        let sweeps = table.sweep.iter().map(Sweep::expand).collect::<Result<Vec<_>, _>>()?;
        for mut differences in table.experiment.into_iter().chain(sweeps.into_iter().flatten()) {
            let own = std::mem::replace(&mut differences.systems, table.systems.clone());
            differences.systems.extend(own);
            self.add_experiment(base, differences, columns)?;
        }
        for absent in &table.absent {
            self.missing.extend(absent.expand(columns)?);
        }
        self.overall.extend(table.overall);
        self.relations.extend(table.relation);
        self.figures.extend(table.figure);
        Ok(())
    }

    fn add_experiment(
        &mut self,
        base: &Defaults,
        mut differences: Differences,
        columns: &[Column],
    ) -> Result<(), String> {
        let name = differences.name.clone();
        let wrong = |what: String| format!("experiment {name}: {what}");
        if self.experiments.iter().any(|e| e.name == name) {
            return Err(wrong("there are two of that name; rename one".into()));
        }
        if let Some(like) = differences.like.take() {
            let other = self.experiments.iter().find(|e| e.name == like);
            let other = other.ok_or_else(|| wrong(format!("there is no earlier experiment {like:?}; name one")))?;
            differences.inherit(other);
        }
        let experiment = differences.resolve(base, columns).map_err(wrong)?;
        for item in &experiment.items {
            let known = |label: &str| experiment.systems.contains_key(label);
            item.check(known).map_err(|what| format!("{name}, {}: {what}", item.item))?;
        }
        self.experiments.push(experiment);
        Ok(())
    }

    /// Checks what concerns all experiments together.
    fn check(&self) -> Result<(), String> {
        let system = |label: &str| self.experiments.iter().any(|e| e.systems.contains_key(label));
        let workload = |name: &str| self.experiments.iter().any(|e| e.workload.as_deref() == Some(name));
        let is_baseline = |measure: &Measure| {
            self.experiments.iter().any(|e| e.systems.first().is_some_and(|(label, _)| measure.is_of(label)))
        };
        for Overall { item, .. } in &self.overall {
            item.check(system).map_err(|what| format!("{}: {what}", item.item))?;
            if item.is_judged() && item.null.is_none() && is_baseline(&item.ours) {
                return Err(format!("{}: it measures the baseline alone; give null", item.item));
            }
        }
        for relation in &self.relations {
            relation.check(system, workload, is_baseline).map_err(|what| format!("{}: {what}", relation.name()))?;
        }
        for figure in &self.figures {
            figure.check(system).map_err(|what| format!("figure {}: {what}", figure.name))?;
        }
        if let Some(quick) = &self.quick {
            quick.check(&self.experiments)?;
        }
        let mut names = HashSet::new();
        for name in self.item_names() {
            if !names.insert(name.clone()) {
                return Err(format!("{name}: there are two items of that name; rename one"));
            }
        }
        Ok(())
    }

    /// Returns the names of all items.
    fn item_names(&self) -> impl Iterator<Item = String> {
        let items = self.experiments.iter().flat_map(|e| &e.items).chain(self.overall.iter().map(|o| &o.item));
        let missing = self.missing.iter().map(|missing| missing.item.clone());
        let related = self.relations.iter().flat_map(|relation| relation.items().map(|(_, item)| item.item));
        items.map(|item| item.item.clone()).chain(missing).chain(related)
    }
}
