//! The capture plugin that QEMU's user-mode emulator loads: every reference of every thread, and every change of the
//! address space, go into the shared ring of [`reach_core::ring`].
//!
//! `hot` holds the two callbacks that run for every block and access. Everything else is off that path: `lane` (a
//! thread's buffer and what it is doing), `process` (which process this is, forking), `vfork`, `translate` (blocks and
//! the dictionary), `image` (what the emulator mapped by itself), `syscalls`, `touched` (memory that the kernel itself
//! reads and writes), `exec`.
//!
//! Locks are taken in one order: the mapping lock, the emulator's own, the dictionary's.

mod api;
mod exec;
mod guest;
mod hot;
mod image;
mod lane;
mod lock;
mod process;
mod syscalls;
mod touched;
mod translate;
mod vfork;

use std::ffi::{CStr, c_char, c_int, c_void};

/// The version of QEMU's plugin interface that this plugin was written for: QEMU refuses it unless the number lies
/// between its own least and current version. Those ranges do not overlap for QEMU 7.2 (1 to 1) and 9 and later (2
/// and up), though all functions used here are the same, so `choose_version` sets it while the library is loaded.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, missing_docs)]
pub static mut qemu_plugin_version: c_int = 1;

/// Runs before QEMU reads the version: constructors run inside dlopen.
#[used]
#[unsafe(link_section = ".init_array")]
static CHOOSE_VERSION: extern "C" fn() = choose_version;

extern "C" fn choose_version() {
    // Scoreboards came with version 2 (QEMU 9.0).
    // SAFETY: dlsym only reads its argument; nothing else runs during the load of the library.
    unsafe {
        if !libc::dlsym(libc::RTLD_DEFAULT, c"qemu_plugin_scoreboard_new".as_ptr()).is_null() {
            qemu_plugin_version = 2;
        }
    }
}

/// Called by QEMU once, before the program is loaded. Anything but 0 makes it give up.
///
/// # Safety
/// QEMU calls it with a valid `info` and `argc` strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: api::Id,
    info: *const api::Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU's promise.
    let (target, args) = unsafe {
        let args = (0..argc as usize).map(|i| CStr::from_ptr(*argv.add(i)).to_bytes());
        (CStr::from_ptr((*info).target_name), args.collect::<Vec<_>>())
    };
    let ready = if target == c"x86_64" {
        hot::access_callback().map(translate::set_access_callback).and_then(|()| process::enter(&args))
    } else {
        Err(format!("this emulator emulates {}, not x86-64", target.to_string_lossy()))
    };
    match ready {
        Ok(true) => image::at_installation(),
        Ok(false) => return 0,
        Err(why) => {
            eprintln!("reach: cannot capture: {why}");
            return 1;
        }
    }
    // SAFETY: plain registrations, with callbacks of the types that the interface asks for.
    unsafe {
        api::qemu_plugin_register_vcpu_init_cb(id, lane::on_start);
        api::qemu_plugin_register_vcpu_exit_cb(id, lane::on_exit);
        api::qemu_plugin_register_vcpu_tb_trans_cb(id, translate::on_translate);
        api::qemu_plugin_register_vcpu_syscall_cb(id, syscalls::on_enter);
        api::qemu_plugin_register_vcpu_syscall_ret_cb(id, syscalls::on_return);
        api::qemu_plugin_register_atexit_cb(id, on_end, std::ptr::null_mut());
    }
    0
}

/// The emulator ends, after exit or (from QEMU 10 on) because of a signal.
extern "C" fn on_end(_: api::Id, _: *mut c_void) {
    process::finish(lane::current());
}
