//! Several guests on one host.

use reach_core::Chunk;
use reach_lab::{Conditions, Outcome, Preparer, Simulation, Timing, machine};
use reach_trace::{Multiprogram, Source, scenario};
use std::sync::Arc;

const GUEST: &str = "skylake-sp:nested.host_page=4K";

/// A run of several programs in guests.
struct Guests {
    machine: &'static str,
    system: &'static str,
    host: &'static str,
    timing: Timing,
    guests: u32,
    /// The guests that programs are distributed over; those behind them have none.
    used: u32,
    quantum: Option<u64>,
}

impl Guests {
    /// Two guests whose programs take turns.
    const TWO: Guests = Guests {
        machine: GUEST,
        system: "base",
        host: "base",
        timing: Timing::Counts,
        guests: 2,
        used: 2,
        quantum: Some(5000),
    };

    fn boot(&self) -> Result<Simulation, String> {
        let machine = machine::resolve(self.machine).unwrap();
        let system = reach_systems::resolve(self.system).unwrap();
        let Guests { timing, guests, .. } = *self;
        let conditions = Conditions { timing, guests, host: Some(self.host.into()), ..Conditions::new(128 << 20) };
        Simulation::new(&machine, &system, &conditions).map_err(|error| error.to_string())
    }

    /// Runs `programs`, and checks laws where chunks begin: after the last, the check would begin a process anew.
    fn run(&self, programs: &[&str]) -> Outcome {
        let mut simulation = self.boot().unwrap();
        let mut preparer = Preparer::new(self.timing);
        let members = programs.iter().map(|spec| scenario::synthetic_member(spec).unwrap()).collect();
        let mut source = Multiprogram::new("guests".into(), members, self.quantum).in_guests(self.used);
        let mut chunk = Chunk::default();
        while source.fill(&mut chunk).unwrap() {
            simulation.check();
            let batch = preparer.prepare(std::mem::take(&mut chunk), source.blocks());
            simulation.take(&Arc::new(batch)).unwrap();
        }
        simulation.finish()
    }
}

const PROGRAMS: [&str; 2] = ["gups:bytes=8M,updates=30K", "kv:bytes=12M,requests=2K"];

#[test]
fn guests_keep_apart_under_all_policies() {
    let timings = [("base", "base", Timing::InOrder), ("linux-thp", "linux-thp", Timing::Ooo)];
    let pairs = [
        ("base", "linux-thp"),
        ("linux-thp", "base"),
        ("navarro-2002", "freebsd"),
        ("jia-2023-gemini:huge_faults=off", "jia-2023-gemini"),
    ];
    let counted = pairs.map(|(system, host)| (system, host, Timing::Counts));
    for (system, host, timing) in timings.into_iter().chain(counted) {
        // Laws are checked in here: no frame of the host backs two pages, and TLBs hold what the tables say.
        let outcome = Guests { system, host, timing, ..Guests::TWO }.run(&PROGRAMS);
        let about = format!("{system} on {host}");
        let (all, each) = (outcome.host.unwrap(), outcome.host_by_guest);
        assert_eq!(each.len(), 2, "{about}");
        assert!(each.iter().all(|guest| guest.page_faults > 0), "{about}");
        assert_eq!(all.page_faults, each.iter().map(|guest| guest.page_faults).sum::<u64>(), "{about}");
        let current = each.iter().map(|guest| guest.resident_bytes.current).sum::<u64>();
        assert_eq!(all.resident_bytes.current, current, "{about}");
        // Cycles and counts of processes add up to those of all.
        let processes = outcome.processes.values();
        let walks = processes.clone().map(|process| process.hardware.walks()).sum::<u64>();
        assert_eq!(outcome.total.hardware.walks(), walks, "{about}");
        let cycles = processes.map(|process| process.ledger.total().0).sum::<u64>();
        assert_eq!(outcome.total.ledger.total().0, cycles, "{about}");
        let faults = outcome.os_processes.values().map(|process| process.page_faults).sum::<u64>();
        assert_eq!(outcome.os.page_faults, faults, "{about}");
    }
}

#[test]
fn each_guest_faults_as_if_it_were_alone() {
    let touch = |kilobytes: u64| format!("touch:bytes={kilobytes}K,page=4K");
    let faults = |outcome: &Outcome| outcome.host_by_guest.iter().map(|guest| guest.page_faults).collect::<Vec<_>>();
    let alone = |spec: &str| Guests { guests: 1, used: 1, ..Guests::TWO }.run(&[spec]).host.unwrap().page_faults;
    let [small, large] = [64, 192].map(touch);
    // 32 pages of data more, whose entries lie in the same page of the table.
    assert_eq!(alone(&large) - alone(&small), 32);
    let both = Guests::TWO.run(&[&small, &large]);
    assert_eq!(faults(&both), [alone(&small), alone(&large)], "nobody profits from the other's pages");
    let three = Guests { guests: 3, used: 3, ..Guests::TWO }.run(&[&large, &small, &small]);
    assert_eq!(faults(&three), [alone(&large), alone(&small), alone(&small)]);
    // In one guest, the programs share it: its first pages, and its file.
    let shared = Guests { guests: 1, used: 1, ..Guests::TWO }.run(&[&small, &large]).host.unwrap();
    assert!(shared.page_faults < alone(&small) + alone(&large));
    let bytes = 4096 * both.host.as_ref().unwrap().page_faults;
    assert_eq!(both.host.unwrap().resident_bytes.peak, bytes, "every fault gave a page");
}

#[test]
fn a_guest_in_which_nothing_runs_changes_nothing() {
    let of = |guests| Guests { guests, used: 1, system: "linux-thp", ..Guests::TWO }.run(&PROGRAMS);
    let [one, idle] = [1, 2].map(of);
    assert_eq!(one.total.hardware, idle.total.hardware);
    assert_eq!(one.os, idle.os);
    assert_eq!(one.host.unwrap().page_faults, idle.host.unwrap().page_faults);
    assert_eq!(idle.host_by_guest[1].page_faults, 0);
    // The host zeroes a page or two for its own records of one process more.
    let cycles = [&one.total, &idle.total].map(|total| total.ledger.total().0);
    assert!(cycles[0].abs_diff(cycles[1]) < 1000, "{cycles:?}");
}

#[test]
fn hosts_promote_the_memory_of_guests_that_wait() {
    let host = "panwar-2019-hawkeye:huge_faults=off,sample_millisecs=1,window_millisecs=1";
    let outcome = Guests { host, timing: Timing::InOrder, ..Guests::TWO }
        .run(&["gups:bytes=16M,updates=400K", "gups:bytes=16M,updates=400K"]);
    let peaks: Vec<u64> = outcome.host_by_guest.iter().map(|guest| guest.superpages[0].peak).collect();
    assert!(peaks.iter().all(|&peak| peak > 0), "{peaks:?}");
}

#[test]
fn what_does_not_fit_several_guests_is_refused() {
    let refusal = |guests: Guests| guests.boot().err().unwrap();
    let beyond = Guests { guests: 17, used: 1, ..Guests::TWO };
    assert!(refusal(beyond).contains("expected at most 16"));
    for system in ["zhang-2024-dmt", "gupta-2021-midgard"] {
        let refused = refusal(Guests { system, timing: Timing::InOrder, ..Guests::TWO });
        assert!(refused.contains("not modelled for several guests"), "{system}: {refused}");
    }
    let machine = machine::resolve(GUEST).unwrap();
    let system = reach_systems::resolve("base").unwrap();
    let conditions = Conditions { guests: 2, ..Conditions::new(64 << 20) };
    let refused = |conditions: &Conditions| Simulation::new(&machine, &system, conditions).err().unwrap().to_string();
    assert!(refused(&conditions).contains("give --host"));
    let kernel = Conditions { kernel: true, host: Some("base".into()), ..conditions };
    assert!(refused(&kernel).contains("leave out --kernel"));
    // A program for more guests than there are.
    let mut simulation = Guests::TWO.boot().unwrap();
    let members = (0..3).map(|_| scenario::synthetic_member("touch:bytes=64K").unwrap()).collect();
    let mut source = Multiprogram::new("three".into(), members, None).in_guests(3);
    let mut chunk = Chunk::default();
    source.fill(&mut chunk).unwrap();
    let batch = Preparer::new(Timing::Counts).prepare(chunk, source.blocks());
    let error = simulation.take(&Arc::new(batch)).unwrap_err().to_string();
    assert!(error.contains("give --guests 3 or more"), "{error}");
}

#[test]
fn without_guests_marks_of_guests_change_nothing() {
    let of = |used| Guests { guests: 1, used, ..Guests::TWO }.run(&PROGRAMS);
    let [plain, marked] = [1, 2].map(of);
    assert_eq!(plain.total.hardware, marked.total.hardware);
    assert_eq!(plain.os, marked.os);
}
