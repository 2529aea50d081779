//! Translation of blocks: each block gets a number, a definition in the dictionary, and callbacks.

use crate::{api, guest, hot, image, writer};
use reach_core::VirtAddr;
use reach_core::ring::{define_block, record};
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// The greatest instruction index of a reference.
const LAST_INDEX: usize = 511;

/// The callback for every access.
static ON_ACCESS: OnceLock<api::MemCb> = OnceLock::new();

/// Whether the mappings of the image have been sent.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Sets the callback for every access. Call it before the first block is translated.
pub fn set_access_callback(callback: api::MemCb) {
    ON_ACCESS.get_or_init(|| callback);
}

/// Called when a block is translated. The emulator holds its mapping lock, so calls do not overlap.
pub extern "C" fn on_translate(_: api::Id, tb: *mut api::Tb) {
    // SAFETY: QEMU passes a block that is valid during the call, and `index` stays below its number of instructions. It holds
    // its mapping lock, and has read the block's `len` contiguous bytes at `at`.
    unsafe {
        let (count, pc) = (api::qemu_plugin_tb_n_insns(tb), api::qemu_plugin_tb_vaddr(tb));
        // The legacy system-call page (vsyscall) lies in the kernel's half, and is not memory of the program.
        if count == 0 || pc >> 47 != 0 {
            return;
        }
        let first = api::qemu_plugin_tb_get_insn(tb, 0);
        let at = api::qemu_plugin_insn_haddr(first);
        if !at.is_null() && !BEGUN.swap(true, Ordering::Relaxed) {
            guest::set_base((at as u64).wrapping_sub(api::qemu_plugin_insn_vaddr(first)));
            image::begin();
        }
        let Some(&on_access) = ON_ACCESS.get() else { return };
        let mut len = 0;
        for index in 0..count {
            let insn = api::qemu_plugin_tb_get_insn(tb, index);
            len += api::qemu_plugin_insn_size(insn);
            let data = (index.min(LAST_INDEX) as u64) << 53;
            let (flags, rw) = (api::NO_REGISTERS, api::READS_AND_WRITES);
            api::qemu_plugin_register_vcpu_mem_cb(insn, on_access, flags, rw, data as *mut c_void);
        }
        let bytes = if at.is_null() { Vec::new() } else { copy(at, len) };
        let number = writer::ring().header().next_block.0.fetch_add(1, Ordering::Relaxed);
        writer::define(&define_block(number, VirtAddr(pc), len as u16, count as u16, &bytes));
        let data = record::block(number) as *mut c_void;
        api::qemu_plugin_register_vcpu_tb_exec_cb(tb, hot::on_block, api::NO_REGISTERS, data);
    }
}

/// Copies the `len` bytes of a block from the program's memory, where other threads of the program may be changing them, as
/// compilers at run time do.
///
/// # Safety
/// A translator must have just read these bytes, under the emulator's mapping lock, and still hold it.
unsafe fn copy(at: *const u8, len: usize) -> Vec<u8> {
    // SAFETY: the bytes stay mapped, because the program's munmap, mprotect and mremap wait for the lock. Atomic loads may race
    // with the program's stores. A file that is cut in between ends the program by SIGBUS, as executing the block would.
    (0..len).map(|i| unsafe { AtomicU8::from_ptr(at.add(i).cast_mut()) }.load(Ordering::Relaxed)).collect()
}
