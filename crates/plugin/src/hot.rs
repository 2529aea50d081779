//! The callbacks that run for every block and every access.

use crate::api::{MemInfo, qemu_plugin_mem_is_store, qemu_plugin_mem_size_shift};
use crate::lane;
use std::ffi::{c_uint, c_void};

const ADDRESS: u64 = (1 << 48) - 1;

/// A block is entered; `data` is its record.
pub extern "C" fn on_block(vcpu: c_uint, data: *mut c_void) {
    lane::record(vcpu, data as u64);
}

/// An instruction accesses memory; `data` holds its index in the block where a [`Ref`](reach_core::Ref) keeps it.
///
/// QEMU's information word has the logarithm of the size in bits 4–6 and 1, 2 or 3 (load, store, both) in bits 16–17,
/// which is how a reference numbers its kinds: both fields move to their places without a look at them.
pub extern "C" fn on_access(vcpu: c_uint, info: MemInfo, address: u64, data: *mut c_void) {
    let info = u64::from(info);
    lane::record(vcpu, data as u64 | address & ADDRESS | (info & 0x3_0000) << 32 | (info & 0x70) << 46);
}

/// Whether the running QEMU packs its information words as [`on_access`] unpacks them.
pub fn check_layout() -> Result<(), String> {
    for size in 0..5 {
        for kind in 1..3u32 {
            let info = size << 4 | kind << 16;
            // SAFETY: both functions only look at the number.
            let (shift, store) = unsafe { (qemu_plugin_mem_size_shift(info), qemu_plugin_mem_is_store(info)) };
            if shift != size || store != (kind == 2) {
                return Err("this version of QEMU describes accesses in a way that is not known here".into());
            }
        }
    }
    Ok(())
}
