//! Names of code that processes have compiled while they ran.

use reach_core::{Asid, VirtAddr};
use reach_lab::attribution::{Attribution, MappingId};
use reach_symbols::PerfMap;
use reach_trace::Execution;
use std::collections::HashMap;

/// The maps of processes, each read when it is first asked for.
pub struct CompiledCode<'a> {
    attribution: &'a Attribution,
    /// `None` where no processes are known.
    execution: Option<&'a Execution>,
    /// `None` for processes without a map that they wrote themselves.
    maps: HashMap<Asid, Option<PerfMap>>,
}

impl<'a> CompiledCode<'a> {
    /// Names the code of a program that ran as `execution`.
    pub fn new(attribution: &'a Attribution, execution: Option<&'a Execution>) -> CompiledCode<'a> {
        CompiledCode { attribution, execution, maps: HashMap::new() }
    }

    /// Returns the name of the code at `address`, in the mapping `code`; `None` where no map has it.
    pub fn name(&mut self, code: MappingId, address: VirtAddr) -> Option<String> {
        let execution = self.execution?;
        let read = |asid: Asid| {
            // A map that was written at another time is another process's.
            PerfMap::open(&PerfMap::path(*execution.pids.get(&asid.0)?), |written| execution.contains(written))
        };
        let mut processes = self.attribution.compilers(code).into_iter();
        processes.find_map(|asid| {
            let map = self.maps.entry(asid).or_insert_with(|| read(asid)).as_ref()?;
            Some(map.name(address.0)?.to_owned())
        })
    }
}
