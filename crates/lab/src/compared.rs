//! The systems of a comparison for which nobody has named any.

use crate::conditions::Conditions;
use crate::machine::Resolved as Machine;
use crate::simulation::{Simulation, SimulationError};
use reach_systems::{Description, Resolved as System};

/// The systems of a comparison, and why others are none of them.
pub struct Compared {
    /// In the order of the registry, so that the first is the reference of all speedups.
    pub systems: Vec<System>,
    /// The errors of those that one of the machines cannot run.
    pub left_out: Vec<SimulationError>,
}

/// Returns the systems of the registry that `wanted` names, as far as all of `machines` can run them; [`Description::compared`]
/// tells those of the default comparison. Systems for TLBs that software fills are left out without an error where a machine
/// has none: they apply to few.
///
/// # Errors
/// When the placement suits no system, and when the first system cannot run.
pub fn compared(
    machines: &[Machine],
    conditions: &Conditions,
    wanted: impl Fn(&Description) -> bool,
) -> Result<Compared, SimulationError> {
    let mut compared = Compared { systems: Vec::new(), left_out: Vec::new() };
    for description in reach_systems::list().iter().filter(|description| wanted(description)) {
        let system = reach_systems::resolve(description.name).expect("it is listed, and named without options");
        if machines.iter().any(|machine| Simulation::lacks_handler(machine, &system)) {
            continue;
        }
        match machines.iter().find_map(|machine| Simulation::new(machine, &system, conditions).err()) {
            Some(error @ SimulationError::Placement(_)) => return Err(error),
            Some(error) if compared.systems.is_empty() => return Err(error),
            Some(error) => compared.left_out.push(error),
            None => compared.systems.push(system),
        }
    }
    Ok(compared)
}
