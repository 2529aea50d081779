//! Records the kernel's own references, inside QEMU's system emulator. `kernels/record.sh` builds a guest, boots a kernel
//! with this plugin and writes the trace that ships with the project; `docs/kernel.md` says how it is used.
//!
//! The guest's program announces what it is about to provoke by a *marker*, an instruction without effect that carries a
//! number (`marker`). From the next block of the kernel to the next block of a program, all references are one
//! *passage*. `passages` keeps, of each kind, those of typical length.
//!
//! `kernels/record.sh` compiles the markers' names into the guest's program and passes them to this plugin: `names=a:b:c`
//! names marker 1, 2 and 3.

mod code;
mod marker;
mod passages;
mod recorder;
mod write;

use reach_qemu as api;
use recorder::Recorder;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The version of QEMU's plugin interface that this plugin requires.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, missing_docs)]
pub static qemu_plugin_version: c_int = 1;

/// The recorder. The guest has one processor, so nobody waits for the lock.
static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);

fn recorder() -> MutexGuard<'static, Option<Recorder>> {
    RECORDER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs the plugin. QEMU calls it once and gives up unless it returns 0. Arguments: `names=A:B:…` and `out=FILE`.
///
/// # Safety
/// `info` must be valid, and `argv` must point to `argc` strings. QEMU guarantees both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: api::Id,
    info: *const api::Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU passes valid pointers, as required above.
    let installation = unsafe { api::Installation::of(info, argc, argv) };
    if installation.target != c"x86_64" || !installation.system {
        let target = installation.target.to_string_lossy();
        eprintln!("reach-kernel-recorder: expected the emulator of x86-64 systems, found one of {target}");
        return 1;
    }
    let arguments = installation.arguments.iter().map(|argument| String::from_utf8_lossy(argument).into_owned());
    match Recorder::new(&arguments.collect::<Vec<_>>()) {
        Ok(new) => *recorder() = Some(new),
        Err(error) => {
            eprintln!("reach-kernel-recorder: {error}");
            return 1;
        }
    }
    // SAFETY: `id` is this plugin's, and the callbacks have the types that the interface requires.
    unsafe {
        api::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
        api::qemu_plugin_register_atexit_cb(id, on_end, std::ptr::null_mut());
    }
    0
}

/// Called when a block is translated: it gets a number and, if it is the kernel's, callbacks for its accesses.
extern "C" fn on_translate(_: api::Id, tb: *mut api::Tb) {
    let mut recorder = recorder();
    let Some(recorder) = &mut *recorder else { return };
    // SAFETY: QEMU passes a block that is valid during the call, `index` stays below its number of instructions, and the
    // bytes of an instruction are as many as its size.
    unsafe {
        let (count, pc) = (api::qemu_plugin_tb_n_insns(tb), api::qemu_plugin_tb_vaddr(tb));
        let mut instructions: Vec<Vec<u8>> = Vec::with_capacity(count);
        for index in 0..count {
            let insn = api::qemu_plugin_tb_get_insn(tb, index);
            let (at, len) = (api::qemu_plugin_insn_data(insn), api::qemu_plugin_insn_size(insn));
            instructions.push(std::slice::from_raw_parts(at, len).to_vec());
            if recorder::is_kernel(pc) {
                let (flags, rw) = (api::NO_REGISTERS, api::READS_AND_WRITES);
                api::qemu_plugin_register_vcpu_mem_cb(insn, on_access, flags, rw, index as *mut c_void);
            }
        }
        if let Some(number) = recorder.define(pc, &instructions) {
            let data = number as *mut c_void;
            api::qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, api::NO_REGISTERS, data);
        }
    }
}

/// Called when a block is entered. `data` is its number.
extern "C" fn on_block(_: c_uint, data: *mut c_void) {
    if let Some(recorder) = &mut *recorder() {
        recorder.enter(data as usize);
    }
}

/// Called when an instruction of the kernel accesses memory. `data` is its index in the block.
extern "C" fn on_access(_: c_uint, info: api::MemInfo, address: u64, data: *mut c_void) {
    // SAFETY: both functions only read their argument.
    let (size_log2, store) =
        unsafe { (api::qemu_plugin_mem_size_shift(info) as u8, api::qemu_plugin_mem_is_store(info)) };
    if let Some(recorder) = &mut *recorder() {
        recorder.access(address, size_log2, store, data as u16);
    }
}

/// Called when the guest has switched itself off.
extern "C" fn on_end(_: api::Id, _: *mut c_void) {
    let Some(recorder) = recorder().take() else { return };
    match write::write(recorder) {
        Ok(report) => eprintln!("{report}"),
        Err(error) => eprintln!("reach-kernel-recorder: {error}"),
    }
}
