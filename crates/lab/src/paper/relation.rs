//! Relations of two numbers over many experiments: the line through the points of a workload, how near the points are to
//! it, and how alike two rankings of points are.

use super::experiment::PaperExperiment;
use super::interval::{self, Interval};
use super::item::{PublishedItem, Tolerance};
use super::measure::Measure;
use super::reason::Reason;
use crate::results::Row;
use indexmap::IndexMap;
use serde::Deserialize;
use statrs::statistics::{Data, OrderStatistics, RankTieBreaker, Statistics};

/// Published numbers about all experiments that are points of a workload, or about those of each workload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relation {
    /// The name of its items, with `{}` for the workload if each has one.
    item: String,
    section: String,
    unit: String,
    tolerance: Tolerance,
    reason: Reason,
    /// The conclusion of the paper that its items decide, in a sentence.
    conclusion: Option<String>,
    /// The statistic where nothing has an effect. `None`: it is that of points without an effect.
    null: Option<f64>,
    /// The number on the horizontal axis.
    x: Measure,
    /// Whether the decimal logarithm of `x` is used.
    #[serde(default)]
    log_x: bool,
    /// The number on the vertical axis.
    y: Measure,
    /// The statistic that is published.
    give: Statistic,
    /// Whether points with a negative `y` are left out.
    #[serde(default)]
    positive: bool,
    /// The published number over the points of all workloads.
    published: Option<f64>,
    /// The published numbers of each workload.
    #[serde(default)]
    each: IndexMap<String, f64>,
}

/// A statistic of points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Statistic {
    /// The slope of the least-squares line.
    Slope,
    /// The intercept of the least-squares line.
    Intercept,
    /// The share of the variance that the line explains, adjusted for the number of points.
    AdjustedR2,
    /// Pearson's correlation.
    Pearson,
    /// Spearman's rank correlation; equal values share their mean rank.
    Spearman,
}

/// A point of a workload.
struct WorkloadPoint<'a> {
    workload: &'a str,
    x: f64,
    y: f64,
    /// `y` where nothing has an effect; `None` where that has no such number.
    without_effect: Option<f64>,
}

impl Relation {
    /// Returns whether it decides a conclusion.
    pub(super) fn is_conclusion(&self) -> bool {
        self.conclusion.is_some()
    }

    /// Fails unless it can be computed where `known` holds the labels of systems and `workload` the names of workloads.
    /// `baseline` says whether a measure is of baselines alone.
    pub(super) fn check(
        &self,
        known: impl Fn(&str) -> bool,
        workload: impl Fn(&str) -> bool,
        baseline: impl Fn(&Measure) -> bool,
    ) -> Result<(), String> {
        if self.published.is_none() == self.each.is_empty() {
            return Err("give either published, over all points, or each, by workload".into());
        }
        if let Some(name) = self.each.keys().find(|name| !workload(name)) {
            return Err(format!("no experiment is of the workload {name:?}"));
        }
        if self.null.is_none() && baseline(&self.y) {
            return Err("y measures the baseline alone; give null".into());
        }
        self.x.check(&known)?;
        self.items().try_for_each(|(_, item)| item.check(&known))
    }

    /// Returns the name of its items, with `{}` for the workload.
    pub(super) fn name(&self) -> &str {
        &self.item
    }

    /// Returns its items, each with its workload; `None` is all workloads.
    pub(super) fn items(&self) -> impl Iterator<Item = (Option<&str>, PublishedItem)> {
        let item = |name: &str, published| PublishedItem {
            item: self.item.replace("{}", name),
            section: self.section.clone(),
            published,
            unit: self.unit.clone(),
            tolerance: Some(self.tolerance),
            reason: self.reason.clone(),
            ours: self.y.clone(),
            null: self.null,
            conclusion: self.conclusion.clone(),
            kept_back: false,
        };
        let all = self.published.map(|published| (None, item("all", published)));
        let each = self.each.iter().map(move |(name, &published)| (Some(name.as_str()), item(name, published)));
        all.into_iter().chain(each)
    }

    /// Returns the items with our numbers, from the results of all experiments. An item without a null gets that of points
    /// whose `y` nothing has an effect on.
    pub(super) fn compute<'a>(
        &self,
        results: impl Iterator<Item = (&'a PaperExperiment, &'a [Row])>,
    ) -> Vec<(PublishedItem, Result<f64, String>, Option<Interval>)> {
        let points: Vec<_> = results.filter_map(|(experiment, rows)| self.point(experiment, rows)).collect();
        let compute = |(workload, mut item): (Option<&str>, PublishedItem)| {
            let chosen = || points.iter().filter(|point| workload.is_none_or(|name| name == point.workload));
            let (x, y): (Vec<f64>, Vec<f64>) = chosen().map(|point| (point.x, point.y)).unzip();
            let inert: Option<Vec<f64>> = chosen().map(|point| point.without_effect).collect();
            item.null = item.null.or_else(|| self.give.of_inert_points(&x, &inert?));
            item.reason.text += &format!("; {} points", x.len());
            let ours = self.give.compute(&x, &y);
            let interval = ours.as_ref().ok().and_then(|&ours| self.give.interval(ours, x.len()));
            (item, ours, interval)
        };
        self.items().map(compute).collect()
    }

    fn point<'a>(&self, experiment: &'a PaperExperiment, rows: &[Row]) -> Option<WorkloadPoint<'a>> {
        let workload = experiment.workload.as_deref()?;
        let x = experiment.measure_if_present(&self.x, rows)?;
        let y = experiment.measure_if_present(&self.y, rows)?;
        let without_effect = experiment.without_effect_if_present(&self.y, rows);
        let x = if self.log_x { x.log10() } else { x };
        (x.is_finite() && !(self.positive && y < 0.0)).then_some(WorkloadPoint { workload, x, y, without_effect })
    }
}

impl Statistic {
    /// Returns the statistic of points without an effect. If `y` is the same for all, nothing correlates with it.
    fn of_inert_points(self, x: &[f64], y: &[f64]) -> Option<f64> {
        let first = *y.first()?;
        match (y.iter().all(|&y| y == first), self) {
            (false, _) => self.compute(x, y).ok(),
            (true, Statistic::Intercept) => Some(first),
            (true, _) => Some(0.0),
        }
    }

    /// Returns the 95 % confidence interval of a correlation of `n` points, and `None` for other statistics.
    fn interval(self, value: f64, n: usize) -> Option<Interval> {
        match self {
            Statistic::Pearson | Statistic::Spearman => interval::of_correlation(value, n, self == Statistic::Spearman),
            Statistic::Slope | Statistic::Intercept | Statistic::AdjustedR2 => None,
        }
    }

    /// Returns the statistic of at least three points.
    fn compute(self, x: &[f64], y: &[f64]) -> Result<f64, String> {
        let n = x.len() as f64;
        if x.len() < 3 {
            return Err(format!("{} points were measured; a relation needs at least 3", x.len()));
        }
        let pearson = |x: &[f64], y: &[f64]| x.covariance(y) / (x.std_dev() * y.std_dev());
        let slope = || x.covariance(y) / x.variance();
        let ranks = |values: &[f64]| Data::new(values.to_vec()).ranks(RankTieBreaker::Average);
        let value = match self {
            Statistic::Slope => slope(),
            Statistic::Intercept => y.mean() - slope() * x.mean(),
            Statistic::AdjustedR2 => 1.0 - (1.0 - pearson(x, y).powi(2)) * (n - 1.0) / (n - 2.0),
            Statistic::Pearson => pearson(x, y),
            Statistic::Spearman => pearson(&ranks(x), &ranks(y)),
        };
        match value.is_finite() {
            true => Ok(value),
            false => Err("all points are equal in x or y".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Anscombe's first data set (1973): published as y = 3 + 0.5 x, r = 0.816, R² = 0.667 of eleven points.
    #[test]
    fn a_line_and_its_fit_match_the_textbook() {
        let x = [10., 8., 13., 9., 11., 14., 6., 4., 12., 7., 5.];
        let y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68];
        let near = |statistic: Statistic, wanted: f64| {
            let ours = statistic.compute(&x, &y).unwrap();
            assert!((ours - wanted).abs() < 0.001, "{statistic:?}: {ours} for {wanted}");
        };
        near(Statistic::Slope, 0.5001);
        near(Statistic::Intercept, 3.0001);
        near(Statistic::Pearson, 0.8164);
        near(Statistic::AdjustedR2, 0.6295);
        near(Statistic::Spearman, 0.8182);
    }

    #[test]
    fn spearman_compares_ranks_and_equal_values_share_theirs() {
        let near = |x: &[f64], y: &[f64], wanted: f64| {
            let ours = Statistic::Spearman.compute(x, y).unwrap();
            assert!((ours - wanted).abs() < 1e-12, "{ours} for {wanted}");
        };
        near(&[1., 2., 3., 4.], &[1., 10., 100., 1000.], 1.0);
        near(&[1., 2., 3.], &[3., 2., 1.], -1.0);
        // Ranks 1, 2.5, 2.5, 4 against 1 to 4: 4.5 / √(4.5 × 5).
        near(&[1., 2., 2., 3.], &[1., 2., 3., 4.], 4.5 / 22.5_f64.sqrt());
    }

    #[test]
    fn fewer_than_three_points_or_equal_points_are_refused() {
        assert!(Statistic::Slope.compute(&[1., 2.], &[1., 2.]).unwrap_err().contains("at least 3"));
        assert!(Statistic::Pearson.compute(&[1., 1., 1.], &[1., 2., 3.]).is_err());
    }
}
