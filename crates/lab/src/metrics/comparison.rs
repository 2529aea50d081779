//! Metrics that compare several simulations of one program on one machine.

use super::{Estimate, USER_CYCLES, quotient};
use crate::simulation::{Outcome, Tally};
use reach_systems::Role;

/// Returns the speedup of `outcome` over `baseline`, a simulation of the same program: the quotient of their cycles.
pub fn speedup(outcome: &Outcome, baseline: &Outcome) -> Estimate {
    Estimate {
        value: quotient(baseline.total.cycles(), outcome.total.cycles()),
        error: outcome.speedup_error(baseline),
    }
}

/// Returns the speedup of `outcome` over `baseline` in user mode, as [`speedup`] is of all cycles.
pub fn user_speedup(outcome: &Outcome, baseline: &Outcome) -> Estimate {
    let value = quotient((USER_CYCLES.of)(&baseline.total), (USER_CYCLES.of)(&outcome.total));
    Estimate { value, error: outcome.user_speedup_error(baseline) }
}

/// Returns the relative overhead of base pages (Lindsay and Bhattacharjee §III): with the cycles t of each explicit page
/// size, (t_4K − min(t_2M, t_1G)) / min(t_2M, t_1G). The first outcome of a size decides for that size. `None` unless base
/// pages and a larger size were simulated.
pub(crate) fn relative_overhead(outcomes: &[Outcome]) -> Option<(&Outcome, Estimate)> {
    let base = with_role(outcomes, Role::Base)?;
    let mut superpages: Vec<_> = outcomes.iter().filter(|o| matches!(o.role, Role::Explicit(_))).collect();
    superpages.sort_by_key(|outcome| match outcome.role {
        Role::Explicit(size) => Some(size),
        _ => None,
    });
    superpages.dedup_by_key(|outcome| outcome.role);
    let best = superpages.into_iter().min_by_key(|outcome| outcome.total.cycles())?;
    let (slow, fast) = (base.total.cycles(), best.total.cycles());
    // The overhead is the quotient of cycles less 1, so both have the same error.
    let error = best.speedup_error(base);
    (fast > 0).then(|| (base, Estimate { value: (slow as f64 - fast as f64) / fast as f64, error }))
}

/// Returns the overhead of each outcome by the linear model of Karakostas et al. 2015 (Table 6), with walk cycles C and
/// walks M: T_ideal = T_2M − C_2M under transparent superpages; the overhead is C / T_ideal for stock Linux, whose walk
/// cycles counters measure, and M · (C_4K / M_4K) / T_ideal for others, whose misses are simulated. Nothing unless base
/// pages and transparent superpages were simulated.
pub(crate) fn linear_model(outcomes: &[Outcome]) -> Vec<(&Outcome, Estimate)> {
    let roles = (with_role(outcomes, Role::Base), with_role(outcomes, Role::Transparent));
    let (Some(base), Some(huge)) = roles else { return Vec::new() };
    let walks = |t: &Tally| t.hardware.walks() as f64;
    let walk_cycles = |t: &Tally| t.hardware.walk_cycles as f64;
    // Walks that overlap can take more cycles together than an interval has.
    let ideal_cycles = |t: &Tally| t.cycles() as f64 - t.hardware.walk_cycles as f64;
    let ideal = ideal_cycles(&huge.total);
    if ideal <= 0.0 {
        return Vec::new();
    }
    let cycles_per_walk = walk_cycles(&base.total) / walks(&base.total).max(1.0);
    let overhead = |outcome: &Outcome| match outcome.role.is_stock_linux() {
        true => Estimate {
            value: walk_cycles(&outcome.total) / ideal,
            error: outcome.joint_error(&[(outcome, &walk_cycles, 1.0), (huge, &ideal_cycles, -1.0)]),
        },
        false => Estimate {
            value: walks(&outcome.total) * cycles_per_walk / ideal,
            error: outcome.joint_error(&[
                (outcome, &walks, 1.0),
                (base, &walk_cycles, 1.0),
                (base, &walks, -1.0),
                (huge, &ideal_cycles, -1.0),
            ]),
        },
    };
    outcomes.iter().map(|outcome| (outcome, overhead(outcome))).collect()
}

fn with_role(outcomes: &[Outcome], role: Role) -> Option<&Outcome> {
    outcomes.iter().find(|outcome| outcome.role == role)
}
