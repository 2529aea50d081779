//! How two numbers hang together over many experiments: the straight line through the points of a workload, how near to it
//! they lie, and how alike two orders of points are.

use super::file::{Experiment, Item, Tolerance};
use super::measure::Measure;
use crate::results::Row;
use indexmap::IndexMap;
use serde::Deserialize;
use statrs::statistics::{Data, OrderStatistics, RankTieBreaker, Statistics};

/// Published numbers about all experiments that are points of some workload, or about those of each.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relation {
    /// The name of its items, with `{}` for the workload where there is one for each.
    item: String,
    section: String,
    unit: String,
    tolerance: Tolerance,
    reason: String,
    /// What lies across.
    x: Measure,
    /// Its decimal logarithm does.
    #[serde(default)]
    log_x: bool,
    /// What lies up.
    y: Measure,
    give: Give,
    /// Points whose `y` is negative are left out.
    #[serde(default)]
    positive: bool,
    /// The number over the points of all workloads.
    published: Option<f64>,
    /// The numbers of each workload.
    #[serde(default)]
    each: IndexMap<String, f64>,
}

/// What is said of points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Give {
    /// By how much the line of least squares rises.
    Slope,
    /// Where it starts.
    Intercept,
    /// The share of the variance that it explains, less what so few points would give by chance.
    AdjustedR2,
    /// Pearson's correlation.
    Pearson,
    /// That of the ranks, the mean for those that are equal.
    Spearman,
}

/// A point, and whose it is.
struct Point<'a> {
    workload: &'a str,
    x: f64,
    y: f64,
}

impl Relation {
    /// Whether it can be computed where there are systems of these labels and these workloads.
    pub(super) fn check(&self, known: impl Fn(&str) -> bool, workload: impl Fn(&str) -> bool) -> Result<(), String> {
        if self.published.is_none() == self.each.is_empty() {
            return Err("give either published, over all points, or each, by workload".into());
        }
        if let Some(name) = self.each.keys().find(|name| !workload(name)) {
            return Err(format!("no experiment is of the workload {name:?}"));
        }
        self.x.check(&known)?;
        self.y.check(&known)
    }

    /// What its items are called, with `{}` for the workload.
    pub(super) fn name(&self) -> &str {
        &self.item
    }

    /// The items that it stands for, each with its workload.
    pub(super) fn items(&self) -> impl Iterator<Item = (Option<&str>, Item)> {
        let of = |name: &str, published| Item {
            item: self.item.replace("{}", name),
            section: self.section.clone(),
            published,
            unit: self.unit.clone(),
            tolerance: self.tolerance,
            reason: self.reason.clone(),
            ours: self.y.clone(),
        };
        let all = self.published.map(|published| (None, of("all", published)));
        all.into_iter()
            .chain(self.each.iter().map(move |(name, &published)| (Some(name.as_str()), of(name, published))))
    }

    /// The numbers with their items, from the results of all experiments.
    pub(super) fn compute<'a>(
        &self,
        outcomes: impl Iterator<Item = (&'a Experiment, &'a [Row])>,
    ) -> Vec<(Item, Result<f64, String>)> {
        let points: Vec<Point> = outcomes.filter_map(|(experiment, rows)| self.point(experiment, rows)).collect();
        let judge = |(workload, mut item): (Option<&str>, Item)| {
            let of = points.iter().filter(|point| workload.is_none_or(|name| name == point.workload));
            let (x, y): (Vec<f64>, Vec<f64>) = of.map(|point| (point.x, point.y)).unzip();
            item.reason = format!("{}; {} points", item.reason, x.len());
            (item, self.give.of(&x, &y))
        };
        self.items().map(judge).collect()
    }

    fn point<'a>(&self, experiment: &'a Experiment, rows: &[Row]) -> Option<Point<'a>> {
        let workload = experiment.workload.as_deref()?;
        let (x, y) = (self.x.of(experiment, rows)?, self.y.of(experiment, rows)?);
        let x = if self.log_x { x.log10() } else { x };
        (x.is_finite() && !(self.positive && y < 0.0)).then_some(Point { workload, x, y })
    }
}

impl Give {
    fn of(self, x: &[f64], y: &[f64]) -> Result<f64, String> {
        let n = x.len() as f64;
        if x.len() < 3 {
            return Err(format!("{} points were measured, and three are the fewest to say it of", x.len()));
        }
        let pearson = |x: &[f64], y: &[f64]| x.covariance(y) / (x.std_dev() * y.std_dev());
        let slope = || x.covariance(y) / x.variance();
        let ranks = |values: &[f64]| Data::new(values.to_vec()).ranks(RankTieBreaker::Average);
        let value = match self {
            Give::Slope => slope(),
            Give::Intercept => y.mean() - slope() * x.mean(),
            Give::AdjustedR2 => 1.0 - (1.0 - pearson(x, y).powi(2)) * (n - 1.0) / (n - 2.0),
            Give::Pearson => pearson(x, y),
            Give::Spearman => pearson(&ranks(x), &ranks(y)),
        };
        match value.is_finite() {
            true => Ok(value),
            false => Err("all points are the same".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Anscombe's first data set (1973): published as y = 3 + 0.5 x, r = 0.816, R² = 0.667 of eleven points.
    #[test]
    fn a_line_and_its_fit_are_those_of_the_textbook() {
        let x = [10., 8., 13., 9., 11., 14., 6., 4., 12., 7., 5.];
        let y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68];
        let near = |give: Give, wanted: f64| {
            let ours = give.of(&x, &y).unwrap();
            assert!((ours - wanted).abs() < 0.001, "{give:?}: {ours} for {wanted}");
        };
        near(Give::Slope, 0.5001);
        near(Give::Intercept, 3.0001);
        near(Give::Pearson, 0.8164);
        near(Give::AdjustedR2, 0.6295);
        near(Give::Spearman, 0.8182);
    }

    #[test]
    fn orders_count_not_distances_and_equals_share_their_rank() {
        let near = |x: &[f64], y: &[f64], wanted: f64| {
            let ours = Give::Spearman.of(x, y).unwrap();
            assert!((ours - wanted).abs() < 1e-12, "{ours} for {wanted}");
        };
        near(&[1., 2., 3., 4.], &[1., 10., 100., 1000.], 1.0);
        near(&[1., 2., 3.], &[3., 2., 1.], -1.0);
        // Ranks 1, 2.5, 2.5, 4 against 1 to 4: 4.5 / √(4.5 × 5).
        near(&[1., 2., 2., 3.], &[1., 2., 3., 4.], 4.5 / 22.5_f64.sqrt());
    }

    #[test]
    fn too_few_points_and_points_in_one_place_say_nothing() {
        assert!(Give::Slope.of(&[1., 2.], &[1., 2.]).unwrap_err().contains("three are the fewest"));
        assert!(Give::Pearson.of(&[1., 1., 1.], &[1., 2., 3.]).is_err());
    }
}
