//! Memory over time, as points to plot (Navarro et al. 2002, Figure 5).

use super::experiment::PaperExperiment;
use crate::results::{ALL, Row};
use serde::Serialize;

/// One value at one time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeriesPoint {
    /// The paper.
    pub paper: String,
    /// The experiment.
    pub experiment: String,
    /// The label of the system.
    pub system: String,
    /// The metric without its time: `memory.contiguity`, `memory.free` and so on.
    pub series: String,
    /// The unit of the value.
    pub unit: &'static str,
    /// Seconds after boot.
    pub seconds: f64,
    /// The value.
    pub value: f64,
}

/// Returns the points among `rows`: metrics whose names end in `.@` and milliseconds.
pub(super) fn points(paper: &str, experiment: &PaperExperiment, rows: &[Row]) -> Vec<SeriesPoint> {
    let label =
        |spec: &str| experiment.systems.iter().find(|(_, system)| system.spec() == spec).map(|(label, _)| label);
    let point = |row: &Row| {
        let (series, millis) = row.metric.split_once(".@")?;
        let seconds = millis.parse::<f64>().ok()? / 1000.0;
        Some(SeriesPoint {
            paper: paper.into(),
            experiment: experiment.name.clone(),
            system: label(&row.system)?.clone(),
            series: series.into(),
            unit: row.unit,
            seconds,
            value: row.value.as_f64(),
        })
    };
    rows.iter().filter(|row| row.process == ALL).filter_map(point).collect()
}
