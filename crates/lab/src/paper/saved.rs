//! Rows of a run as text, so that they can be judged again without simulating.

use super::Paper;
use super::experiment::PaperExperiment;
use super::run::PaperOutcome;
use crate::metrics;
use crate::results::{Row, Value};
use serde::{Deserialize, Serialize};

/// The rows of one experiment: a line of text.
#[derive(Serialize, Deserialize)]
struct Line {
    experiment: String,
    /// Why it has no rows, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
    rows: Vec<SavedRow>,
}

/// A row without what the experiment and the metric tell.
#[derive(Serialize, Deserialize)]
struct SavedRow {
    system: String,
    process: String,
    metric: String,
    value: Value,
}

/// Returns the rows of `outcomes` as text: a JSON line for each experiment.
pub fn save(outcomes: &[(&PaperExperiment, PaperOutcome)]) -> String {
    let saved = |row: &Row| {
        let Row { system, process, metric, value, .. } = row.clone();
        SavedRow { system, process, metric, value }
    };
    let line = |(experiment, outcome): &(&PaperExperiment, PaperOutcome)| {
        let rows = outcome.rows.iter().map(saved).collect();
        let line = Line { experiment: experiment.name.clone(), failed: outcome.failed.clone(), rows };
        serde_json::to_string(&line).expect("rows are numbers and text") + "\n"
    };
    outcomes.iter().map(line).collect()
}

impl Paper {
    /// Judges rows that [`save`] wrote, for those of the `chosen` experiments that `text` has.
    ///
    /// # Errors
    /// With the first line that is none of [`save`]'s.
    pub fn judge_saved<'a>(
        &self,
        chosen: &[&'a PaperExperiment],
        text: &str,
    ) -> Result<Vec<(&'a PaperExperiment, PaperOutcome)>, String> {
        let mut outcomes = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line: Line = serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1))?;
            let Some(experiment) = chosen.iter().find(|experiment| experiment.name == line.experiment) else {
                continue;
            };
            let restored = |row: SavedRow| Row {
                machine: experiment.machine.name.clone(),
                system: row.system,
                program: String::new(),
                process: row.process,
                unit: metrics::definition(&row.metric).map_or("", |definition| definition.unit),
                metric: row.metric,
                value: row.value,
                error: None,
            };
            let rows = match line.failed {
                Some(why) => Err(why),
                None => Ok(line.rows.into_iter().map(restored).collect()),
            };
            outcomes.push((*experiment, self.outcome(experiment, rows)));
        }
        Ok(outcomes)
    }
}
