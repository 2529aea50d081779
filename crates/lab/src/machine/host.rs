//! The choice of the preset nearest to the processor of this computer.
//!
//! Presets name processors by patterns: `GenuineIntel-6-5E` and `AuthenticAMD-25-20..2F` are vendor, family (decimal)
//! and model (hexadecimal, or a range of models) as CPUID gives them; `arm-41-D0C` is implementer and part of the main
//! identification register, hexadecimal.
//!
//! A hypervisor may give its guests another model than the processor has, so that they can move to other hosts. It seldom
//! hides the caches. Where those of the first level are not those of the model's preset, the caches choose the preset.

mod caches;

use super::error::Problem;
use super::file::{MachineFile, ProcessorSection};
use super::loaded_presets;
use caches::Caches;
use std::fmt;
use std::path::Path;

/// The identity of a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cpu {
    vendor: String,
    family: u32,
    model: u32,
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.vendor.as_str() {
            "arm" => write!(f, "arm-{:X}-{:X}", self.family, self.model),
            vendor => write!(f, "{vendor}-{}-{:X}", self.family, self.model),
        }
    }
}

/// A pattern: a vendor, a family and a range of models.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    vendor: String,
    family: u32,
    models: (u32, u32),
}

impl Pattern {
    fn parse(text: &str) -> Option<Pattern> {
        let mut parts = text.split('-');
        let (vendor, family, models) = (parts.next()?, parts.next()?, parts.next()?);
        let radix = if vendor == "arm" { 16 } else { 10 };
        let hex = |model| u32::from_str_radix(model, 16).ok();
        let (first, last) = models.split_once("..").unwrap_or((models, models));
        let models = (hex(first)?, hex(last)?);
        let complete = parts.next().is_none() && !vendor.is_empty() && models.0 <= models.1;
        let family = u32::from_str_radix(family, radix).ok()?;
        complete.then(|| Pattern { vendor: vendor.to_owned(), family, models })
    }

    fn matches(&self, cpu: &Cpu) -> bool {
        self.vendor == cpu.vendor && self.family == cpu.family && (self.models.0..=self.models.1).contains(&cpu.model)
    }
}

/// Returns a problem for each pattern of a machine file that is malformed, and for a machine without cores.
pub(super) fn check(processor: &ProcessorSection) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (key, patterns) in [("exact", &processor.exact.value), ("near", &processor.near.value)] {
        for pattern in patterns.iter().filter(|pattern| Pattern::parse(pattern).is_none()) {
            let what = format!(
                "{pattern:?} is no processor: expected vendor-family-model such as GenuineIntel-6-5E, or arm-41-D0C"
            );
            problems.push(Problem::new(format!("processor.{key}"), what));
        }
    }
    if processor.cores.as_ref().is_some_and(|cores| cores.value == 0) {
        problems.push(Problem::new("processor.cores", "0: expected at least 1"));
    }
    problems
}

/// Returns the first processor that the text of `/proc/cpuinfo` describes. `None`: it names neither CPUID nor Arm fields.
fn read(cpuinfo: &str) -> Option<Cpu> {
    let field = |name: &str| {
        cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim())
    };
    let hex = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    if let Some(vendor) = field("vendor_id") {
        let (family, model) = (field("cpu family")?.parse().ok()?, field("model")?.parse().ok()?);
        return Some(Cpu { vendor: vendor.to_owned(), family, model });
    }
    let (family, model) = (hex(field("CPU implementer")?)?, hex(field("CPU part")?)?);
    Some(Cpu { vendor: "arm".to_owned(), family, model })
}

/// Returns the preset nearest to the processor of `/proc/cpuinfo`'s text with such caches, and the reason.
fn nearest(cpuinfo: &str, caches: Option<Caches>) -> (&'static str, String) {
    let Some(cpu) = read(cpuinfo) else {
        let preset = "skylake-e3-1240v5";
        return (preset, format!("/proc/cpuinfo does not identify this processor; {preset} is the fallback"));
    };
    let machines = loaded_presets();
    let claims = |patterns: &[String]| patterns.iter().filter_map(|p| Pattern::parse(p)).any(|p| p.matches(&cpu));
    let exact = machines.iter().find(|(_, file)| claims(&file.processor.exact.value));
    let named = exact.or_else(|| machines.iter().find(|(_, file)| claims(&file.processor.near.value)));

    let contradicts = |file, caches: &Caches| Caches::of(file).is_some_and(|preset| !preset.same_first_level(caches));
    let hidden = caches.filter(|caches| named.is_none_or(|(_, file)| contradicts(file, caches)));
    if let Some((name, file)) = hidden.and_then(|caches| with_caches(&cpu.vendor, &caches)) {
        return (name, format!("this processor calls itself {cpu}, but has the caches of that core: {}", file.about));
    }
    if let Some((name, file)) = exact {
        return (name, format!("this processor, {cpu}, has that core: {}", file.about));
    }
    if let Some((name, file)) = named {
        return (name, format!("the preset nearest to this processor, {cpu}: {}", file.about));
    }
    let (preset, relation) = match cpu.vendor.as_str() {
        "GenuineIntel" => ("lion-cove", "the newest of its vendor"),
        "AuthenticAMD" | "HygonGenuine" => ("zen5", "the newest of its vendor"),
        "arm" => ("neoverse-v3", "the newest of its architecture"),
        _ => ("skylake-e3-1240v5", "the fallback"),
    };
    (preset, format!("no preset names this processor, {cpu}; {preset} is {relation}"))
}

/// Returns the preset of a vendor whose cores have such caches; of several, the one whose shared cache is nearest in size.
fn with_caches(vendor: &str, caches: &Caches) -> Option<&'static (&'static str, MachineFile)> {
    let of_vendor = |file: &MachineFile| {
        file.processor.exact.value.iter().filter_map(|text| Pattern::parse(text)).any(|p| p.vendor == vendor)
    };
    let candidates = loaded_presets().iter().filter_map(|preset| {
        let own = Caches::of(&preset.1).filter(|own| own.same_core(caches) && of_vendor(&preset.1))?;
        Some((own.shared_apart(caches), preset))
    });
    candidates.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, preset)| preset)
}

/// Returns the preset nearest to the processor of this computer, and the reason as a clause. An unknown processor gets the
/// newest preset of its vendor, and an unidentified one `skylake-e3-1240v5`.
pub fn nearest_host() -> (&'static str, String) {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    nearest(&cpuinfo, Caches::read(Path::new("/sys/devices/system/cpu/cpu0/cache")))
}

/// Returns the processor of this computer as the patterns of machine files name it, such as `AuthenticAMD-25-1`. `None`: the
/// kernel does not identify it.
pub fn host_processor() -> Option<String> {
    read(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()).map(|cpu| cpu.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_processor_gets_the_preset_of_its_core_or_else_of_its_vendor() {
        let x86 =
            |vendor, family, model| format!("vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n");
        let arm = |implementer, part| format!("CPU implementer\t: {implementer}\nCPU part\t: {part}\n");
        for (cpuinfo, preset, expected) in [
            (x86("GenuineIntel", 6, 0x2d), "sandybridge-e5-2430", "has that core"),
            (x86("GenuineIntel", 6, 0x3f), "haswell-e5-2680v3", "has that core"),
            (x86("GenuineIntel", 6, 0x5e), "skylake-e3-1240v5", "has that core"),
            (x86("GenuineIntel", 6, 0x55), "skylake-sp", "has that core"),
            (x86("GenuineIntel", 6, 0x9e), "skylake-e3-1240v5", "the preset nearest"),
            (x86("GenuineIntel", 6, 0x4f), "broadwell-e5-2680v4", "has that core"),
            (x86("GenuineIntel", 6, 0xad), "granite-rapids", "has that core"),
            (x86("GenuineIntel", 6, 0xb5), "granite-rapids", "the preset nearest"),
            (x86("GenuineIntel", 6, 0xbd), "lunar-lake", "has that core"),
            (x86("GenuineIntel", 6, 0xc6), "lion-cove", "has that core"),
            (x86("GenuineIntel", 6, 0xcc), "lion-cove", "the preset nearest"),
            (x86("AuthenticAMD", 23, 0x71), "zen2", "has that core"),
            (x86("AuthenticAMD", 23, 0x31), "zen2-epyc-7742", "has that core"),
            (x86("AuthenticAMD", 25, 0x01), "zen3-epyc-7763", "has that core"),
            (x86("AuthenticAMD", 25, 0xa0), "zen4c-epyc-9754", "has that core"),
            (x86("AuthenticAMD", 26, 0x02), "zen5-epyc-9755", "has that core"),
            (x86("AuthenticAMD", 26, 0x11), "zen5c-epyc-9965", "has that core"),
            (x86("GenuineIntel", 6, 0x6a), "icelake-sp", "has that core"),
            (x86("GenuineIntel", 6, 0x8f), "sapphire-rapids", "has that core"),
            (x86("GenuineIntel", 6, 0xcf), "sapphire-rapids", "has that core"),
            (x86("AuthenticAMD", 23, 0x08), "zenplus-2700x", "has that core"),
            (x86("AuthenticAMD", 25, 0x21), "zen3", "has that core"),
            (x86("AuthenticAMD", 25, 0x11), "zen4-epyc-9654", "has that core"),
            (x86("AuthenticAMD", 25, 0x61), "zen4", "has that core"),
            (x86("AuthenticAMD", 26, 0x44), "zen5", "has that core"),
            (arm("0x41", "0xd0c"), "neoverse-n1", "has that core"),
            (arm("0x41", "0xd40"), "neoverse-v1", "has that core"),
            (arm("0x41", "0xd49"), "neoverse-n2", "has that core"),
            (arm("0x41", "0xd8e"), "neoverse-n2", "the preset nearest"),
            (arm("0x41", "0xd4c"), "neoverse-v1", "the preset nearest"),
            (arm("0x41", "0xd4f"), "neoverse-v2", "has that core"),
            (arm("0x41", "0xd4e"), "neoverse-v2", "the preset nearest"),
            (arm("0x41", "0xd84"), "neoverse-v3", "has that core"),
            (arm("0xc0", "0xac3"), "ampereone", "has that core"),
            (arm("0x61", "0x023"), "apple-m1", "has that core"),
            (arm("0x61", "0x029"), "apple-m1", "the preset nearest"),
            (arm("0x61", "0x033"), "apple-m2", "has that core"),
            (arm("0x61", "0x043"), "apple-m3", "has that core"),
            (arm("0x61", "0x053"), "apple-m4", "has that core"),
            (arm("0x61", "0x063"), "apple-m4", "the preset nearest"),
            (x86("GenuineIntel", 15, 2), "lion-cove", "newest of its vendor"),
            (x86("AuthenticAMD", 99, 2), "zen5", "newest of its vendor"),
            (arm("0x99", "0x1"), "neoverse-v3", "newest of its architecture"),
            (x86("Other", 1, 1), "skylake-e3-1240v5", "fallback"),
            (String::new(), "skylake-e3-1240v5", "does not identify"),
        ] {
            let (name, reason) = nearest(&cpuinfo, None);
            assert_eq!(name, preset, "{cpuinfo} {reason}");
            assert!(reason.contains(expected), "{cpuinfo}: {reason}");
        }
    }

    #[test]
    fn caches_choose_the_preset_where_they_are_not_those_of_the_model() {
        let x86 =
            |vendor, family, model| format!("vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n");
        let caches = |[instructions, data, second, third]: [u64; 4]| {
            Some(Caches {
                instructions: instructions << 10,
                data: data << 10,
                second: second << 10,
                third: third << 10,
            })
        };
        for (model, sizes, preset, expected) in [
            // A Xeon 6 whose hypervisor calls it Rocket Lake.
            (0xa7, [64, 48, 2048, 491_520], "granite-rapids", "calls itself GenuineIntel-6-A7"),
            (0xa7, [32, 48, 512, 16_384], "icelake-sp", "the preset nearest"),
            (0x55, [32, 48, 2048, 107_520], "sapphire-rapids", "calls itself"),
            (0x8f, [32, 48, 2048, 107_520], "sapphire-rapids", "has that core"),
            // What an emulated processor tells of is no core's.
            (0x8f, [32, 32, 4096, 16_384], "sapphire-rapids", "has that core"),
        ] {
            let (name, reason) = nearest(&x86("GenuineIntel", 6, model), caches(sizes));
            assert_eq!(name, preset, "{model:x} {reason}");
            assert!(reason.contains(expected), "{model:x}: {reason}");
        }
    }

    #[test]
    fn no_two_presets_claim_the_core_of_one_processor() {
        let claims: Vec<(&str, Pattern)> = loaded_presets()
            .iter()
            .flat_map(|(name, file)| {
                file.processor.exact.value.iter().map(|text| (*name, Pattern::parse(text).unwrap()))
            })
            .collect();
        for (at, (first, a)) in claims.iter().enumerate() {
            for (second, b) in &claims[at + 1..] {
                let apart = (&a.vendor, a.family) != (&b.vendor, b.family)
                    || a.models.1 < b.models.0
                    || b.models.1 < a.models.0;
                assert!(apart, "{first} and {second}: {a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn this_computer_has_a_preset() {
        let (name, reason) = nearest_host();
        assert!(super::super::list().any(|machine| machine.name == name), "{name}");
        assert!(!reason.is_empty());
    }
}
