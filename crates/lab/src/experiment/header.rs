//! The header of results: everything that they depend on, with a hash.

use super::{Experiment, Report};
use crate::findings::{Finding, FindingKind};
use crate::simulation::Outcome;
use reach_os::{Fragmentation, FreeMemory};
use reach_trace::{Alignment, FastForward};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The first line of results.
#[derive(Serialize)]
pub struct Header {
    /// The version of Reach.
    pub version: &'static str,
    /// The seed of everything random.
    pub seed: u64,
    /// The name of the timing.
    pub timing: &'static str,
    /// Simulated memory in bytes.
    pub memory: u64,
    /// How memory was fragmented at boot; `None` if it was not.
    pub fragmentation: Option<serde_json::Value>,
    /// Whether files were in the page cache before the program started.
    pub warm: bool,
    /// The number of cores; `None` for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// The number of hardware threads per core; `None` for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smt: Option<u32>,
    /// The seed of the program's random addresses; `None` without randomisation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aslr: Option<u32>,
    /// Whether the kernel's own code was simulated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub kernel: bool,
    /// The host's operating system; left out if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The number of guests on that host; `None` for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guests: Option<u32>,
    /// Which files of code were moved to superpage boundaries, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub align_code: Option<Alignment>,
    /// How many references at the beginning were fast-forwarded, or up to which phase.
    pub fast_forward: FastForward,
    /// After how many references the program was cut off; `None` if it was not.
    pub limit: Option<u64>,
    /// How the program was sampled; `None` if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<serde_json::Value>,
    /// Half the width of the 95 % confidence interval that speedups may have, relative to them; `None` if none was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<f64>,
    /// The machines' resolved configurations.
    pub machines: Vec<serde_json::Value>,
    /// The systems with all their options.
    pub systems: Vec<serde_json::Value>,
    /// SHA-256 over all of the above, in hexadecimal.
    pub hash: String,
    /// What is missing of the program; `None` if all of it was read.
    pub incomplete: Option<String>,
    /// How the program failed; `None` if it did not, or if that is unknown.
    pub ended: Option<String>,
    /// All findings, those of simulations with their machine and system.
    pub findings: Vec<serde_json::Value>,
}

impl Header {
    pub(super) fn of(experiment: &Experiment) -> Header {
        let Experiment { conditions, .. } = experiment;
        let machines = experiment.machines.iter().map(|m| {
            let configuration: serde_json::Value =
                serde_json::from_str(&m.configuration).expect("a resolved configuration is JSON");
            serde_json::json!({ "name": m.name, "hash": m.hash, "configuration": configuration })
        });
        let systems = experiment.systems.iter().map(|s| {
            let settings: std::collections::BTreeMap<_, _> =
                s.settings().iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            serde_json::json!({ "name": s.name(), "settings": settings })
        });
        let mut header = Header {
            version: env!("CARGO_PKG_VERSION"),
            seed: conditions.seed,
            timing: conditions.timing.name(),
            memory: conditions.memory,
            fragmentation: conditions.fragmentation.as_ref().map(|free| match free {
                FreeMemory::Broken(Fragmentation { order, scattered, hold, grain, seed, .. }) => serde_json::json!({
                    "order": order, "scattered": scattered, "hold": hold, "grain": grain, "seed": seed
                }),
                FreeMemory::Counted(blocks) => serde_json::json!({ "blocks": blocks.counts(), "seed": blocks.seed }),
            }),
            warm: conditions.warm,
            cores: Some(conditions.placement.cores).filter(|&cores| cores > 1),
            smt: Some(conditions.placement.threads).filter(|&threads| threads > 1),
            aslr: conditions.aslr,
            kernel: conditions.kernel,
            host: conditions.host.clone(),
            guests: Some(conditions.guests).filter(|&guests| guests > 1),
            align_code: experiment.align_code,
            fast_forward: experiment.fast_forward.clone(),
            limit: experiment.limit,
            sample: experiment.sample.map(|s| {
                let between = s.between.name();
                serde_json::json!({ "every": s.every, "measure": s.measure, "warm": s.warm, "between": between })
            }),
            precision: experiment.precision,
            machines: machines.collect(),
            systems: systems.collect(),
            hash: String::new(),
            incomplete: None,
            ended: None,
            findings: Vec::new(),
        };
        let text = serde_json::to_string(&header).expect("a header is JSON");
        header.hash = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        header
    }

    /// Adds what was found in `report`.
    pub(super) fn with_findings(mut self, report: &Report) -> Header {
        let first = |kind| report.findings.iter().find(|finding| finding.kind == kind).map(|found| found.text.clone());
        self.incomplete = first(FindingKind::Incomplete);
        self.ended = first(FindingKind::ProgramFailed);
        let json = |(outcome, finding): (Option<&Outcome>, &Finding)| match outcome {
            None => serde_json::json!(finding),
            Some(Outcome { machine, system, .. }) => {
                let Finding { kind, text } = finding;
                serde_json::json!({ "machine": machine, "system": system, "kind": kind, "text": text })
            }
        };
        self.findings = report.all_findings().map(json).collect();
        self
    }
}
