//! The callbacks for every block and every access.

use crate::api::{MemCb, MemInfo, qemu_plugin_mem_is_store, qemu_plugin_mem_size_shift};
use crate::lane;
use std::ffi::{c_uint, c_void};

const ADDRESS: u64 = (1 << 48) - 1;

/// Called when a block is entered. `data` is its record.
pub extern "C" fn on_block(vcpu: c_uint, data: *mut c_void) {
    lane::record(vcpu, data as u64);
}

/// Called when an instruction accesses memory. `data` holds its index in the block, at the bits of a
/// [`Ref`](reach_core::Ref).
///
/// QEMU's information word has the logarithm of the size from bit `SIZE_AT` on, and 1, 2 or 3 (load, store, both) in
/// bits 16–17. A reference encodes kind and size equally, so shifts suffice to move both fields.
pub extern "C" fn on_access<const SIZE_AT: u32>(vcpu: c_uint, info: MemInfo, address: u64, data: *mut c_void) {
    let info = u64::from(info);
    let (kind, size) = ((info & 0x3_0000) << 32, (info >> SIZE_AT & 7) << 50);
    lane::record(vcpu, data as u64 | address & ADDRESS | kind | size);
}

/// Returns the [`on_access`] for the information words of the running QEMU: the size is in bits 4–6 up to QEMU 10.1,
/// and in bits 5–7 from 10.2 on.
///
/// # Errors
/// When this QEMU packs them in another way.
pub fn access_callback() -> Result<MemCb, String> {
    let known: [(u32, MemCb); 2] = [(4, on_access::<4>), (5, on_access::<5>)];
    let fits = known.iter().find(|(size_at, _)| (0..5).all(|size| (1..3).all(|kind| unpacks(*size_at, size, kind))));
    let callback = fits.map(|&(_, callback)| callback);
    callback.ok_or_else(|| "this version of QEMU encodes accesses in an unknown way; use QEMU 7.2 to 10.2".into())
}

fn unpacks(size_at: u32, size: u32, kind: u32) -> bool {
    let info = size << size_at | kind << 16;
    // SAFETY: both functions only read their argument.
    unsafe { qemu_plugin_mem_size_shift(info) == size && qemu_plugin_mem_is_store(info) == (kind == 2) }
}
