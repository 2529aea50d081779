//! What the operating system's own work does to caches and memory.

use reach_core::{ControllerCommand, PhysAddr, Traffic};
use reach_hardware::{Access, Caches, Processor};

/// The cycles that the operating system's own memory traffic takes at least: one for each eight bytes.
pub(crate) fn issue(traffic: &Traffic) -> u64 {
    traffic.bytes.div_ceil(8)
}

/// Sends the operating system's own memory traffic through the caches, word by word in effect: a cycle for each eight
/// bytes, and the wait for each line that is not near.
pub(crate) fn send(caches: &mut Caches, traffic: &Traffic) -> u64 {
    let access = if traffic.write { Access::Store } else { Access::Load };
    let shift = caches.line_shift(access);
    let near = caches.near_latency(access);
    let mut cycles = issue(traffic);
    for line in traffic.at.0 >> shift..=(traffic.at.0 + traffic.bytes - 1) >> shift {
        let (latency, _) = caches.access(access, PhysAddr(line << shift));
        // Stores retire into a buffer, as the program's do.
        if !traffic.write {
            cycles += u64::from(latency.saturating_sub(near));
        }
    }
    cycles
}

/// Carries out what changes the addresses that memory goes by. The operating system has charged for it; lines that are
/// written back are buffered, as all are.
pub(crate) fn obey(processor: &mut Processor, command: &ControllerCommand) {
    match *command {
        ControllerCommand::Flush { at, bytes } => processor.flush(at, bytes),
        ControllerCommand::MapShadow { shadow, real } => {
            if let Some(controller) = processor.caches().and_then(|caches| caches.controller.as_mut()) {
                controller.set(shadow, real);
            }
        }
    }
}
