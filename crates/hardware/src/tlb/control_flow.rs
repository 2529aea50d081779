//! The control flow that arrays with reuse prediction (CHiRP) know.

use super::Tlbs;
use crate::array::{Array, ControlFlow};

impl Tlbs {
    /// Returns the control flow that the arrays were told last; `None` if none of them predicts reuse.
    pub fn control_flow(&self) -> Option<ControlFlow> {
        self.arrays.iter().find_map(|array| match &array.array {
            Array::ReusePredicted(sets) => Some(sets.control_flow),
            _ => None,
        })
    }

    /// Tells the arrays that predict reuse the control flow before the next reference.
    pub fn set_control_flow(&mut self, control_flow: ControlFlow) {
        for array in &mut self.arrays {
            if let Array::ReusePredicted(sets) = &mut array.array {
                sets.control_flow = control_flow;
            }
        }
    }
}
