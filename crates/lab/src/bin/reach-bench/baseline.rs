//! Rates that were kept earlier, to hold new ones against: `benches/baselines.jsonl`.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// The computer ([`computer`]).
    pub computer: String,
    /// The commit that was measured.
    pub commit: String,
    pub stream: String,
    pub machine: String,
    pub timing: String,
    /// Million references a second: the median of all rounds.
    pub mrefs_per_s: f64,
    /// The slowest and the fastest round.
    pub lowest: f64,
    pub highest: f64,
}

impl Rate {
    /// Returns whether both measure the same on the same computer.
    fn compares_with(&self, other: &Rate) -> bool {
        self.key() == other.key()
    }

    fn key(&self) -> [&str; 4] {
        [&self.computer, &self.stream, &self.machine, &self.timing]
    }
}

/// The rates that were kept, of all computers.
#[derive(Debug, Default)]
pub struct Baselines(Vec<Rate>);

impl Baselines {
    /// Reads the file at `path`. A file that is not there holds no rates.
    pub fn read(path: &Path) -> Result<Baselines> {
        match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Baselines::default()),
            text => Baselines::parse(&text.with_context(|| format!("{} cannot be read", path.display()))?)
                .with_context(|| format!("{} is damaged; restore it, or remove it", path.display())),
        }
    }

    fn parse(text: &str) -> Result<Baselines> {
        let rate = |(at, line)| serde_json::from_str(line).with_context(|| format!("line {}", at + 1));
        Ok(Baselines(text.lines().enumerate().map(rate).collect::<Result<_>>()?))
    }

    /// Returns the kept rate of the same measurement on the same computer.
    pub fn of(&self, rate: &Rate) -> Option<&Rate> {
        self.0.iter().find(|kept| kept.compares_with(rate))
    }

    /// Keeps `rates` in place of earlier ones of the same measurements.
    pub fn keep(&mut self, rates: &[Rate]) {
        self.0.retain(|kept| !rates.iter().any(|rate| rate.compares_with(kept)));
        self.0.extend_from_slice(rates);
    }

    /// Writes the file at `path`.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = String::new();
        for rate in &self.0 {
            text += &serde_json::to_string(rate)?;
            text.push('\n');
        }
        std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
    }
}

/// Names this computer by its processor and the number of them. Guests of one kind have one name, whatever else their hosts do.
pub fn computer() -> String {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    named(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default(), processors)
}

fn named(cpuinfo: &str, processors: usize) -> String {
    let fields =
        cpuinfo.lines().filter_map(|line| line.split_once(':')).map(|(name, value)| (name.trim(), value.trim()));
    let field = |wanted| fields.clone().find(|&(name, _)| name == wanted).map_or("unknown", |(_, value)| value);
    let [name, family, model, stepping] = ["model name", "cpu family", "model", "stepping"].map(field);
    format!("{name}, family {family}, model {model}, stepping {stepping}, {processors} processors")
}

/// Returns the commit of this tree, with a mark if files have changed since; `unknown` without Git.
pub fn commit() -> String {
    let git =
        std::process::Command::new("git").args(["describe", "--always", "--dirty=+changes", "--abbrev=9"]).output();
    let named = git.ok().filter(|output| output.status.success());
    named.map_or("unknown".into(), |output| String::from_utf8_lossy(&output.stdout).trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(computer: &str, stream: &str, mrefs_per_s: f64) -> Rate {
        let [commit, machine, timing] = ["abc", "skylake", "counts"].map(String::from);
        let (computer, stream) = (computer.into(), stream.into());
        Rate { computer, commit, stream, machine, timing, mrefs_per_s, lowest: mrefs_per_s, highest: mrefs_per_s }
    }

    #[test]
    fn rates_replace_those_of_the_same_measurement_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("baselines.jsonl");
        let mut kept = Baselines::read(&path).unwrap();
        assert_eq!(kept.of(&rate("a", "gcc", 1.0)), None);
        kept.keep(&[rate("a", "gcc", 1.0), rate("b", "gcc", 2.0), rate("a", "random", 3.0)]);
        kept.keep(&[rate("a", "gcc", 4.0)]);
        kept.write(&path).unwrap();
        let read = Baselines::read(&path).unwrap();
        let of = |computer, stream| read.of(&rate(computer, stream, 0.0)).map(|rate| rate.mrefs_per_s);
        assert_eq!(
            [of("a", "gcc"), of("b", "gcc"), of("a", "random"), of("b", "random")],
            [Some(4.0), Some(2.0), Some(3.0), None]
        );
        std::fs::write(&path, "{}\n").unwrap();
        assert!(format!("{:#}", Baselines::read(&path).unwrap_err()).contains("line 1"));
    }

    #[test]
    fn computers_are_named_by_their_processor() {
        let cpuinfo = "processor\t: 0\ncpu family\t: 6\nmodel\t\t: 85\nmodel name\t: A Processor\nstepping\t: 7\n\nprocessor\t: 1\n";
        assert_eq!(named(cpuinfo, 2), "A Processor, family 6, model 85, stepping 7, 2 processors");
        assert!(named("", 1).starts_with("unknown"));
    }
}
