//! The capture plugin, which QEMU's user-mode emulator loads. It writes every reference of every thread, and every
//! change of the address space, to the shared ring of [`reach_core::ring`].
//!
//! | module | contents |
//! |---|---|
//! | `hot` | the two callbacks for every block and every access; all other modules are off that path |
//! | `lane` | the buffer and state of each thread |
//! | `writer` | this process as a writer of the ring: buffers, dictionary, identity |
//! | `process`, `vfork`, `exec` | start, fork, exec and end of the process |
//! | `translate` | numbers and definitions of blocks |
//! | `image` | mappings that the emulator made before the program started |
//! | `syscalls`, `touched` | system calls, and the memory that the kernel reads and writes in them |
//! | `placement`, `interpose` | the addresses of the program's mappings, by replacing the emulator's mmap |
//! | `file` | files that the program maps |
//! | `guest` | reading the program's memory |
//!
//! Locks are taken in this order: the mapping lock, the emulator's own lock, the dictionary's lock.

mod descriptor;
mod exec;
mod file;
mod guest;
mod hot;
mod image;
mod interpose;
mod lane;
mod placement;
mod process;
mod syscalls;
mod touched;
mod translate;
mod vfork;
mod writer;

pub(crate) use reach_qemu as api;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// The version of QEMU's plugin interface that this plugin requires. QEMU refuses a version outside its own range. The
/// ranges of QEMU 7.2 (1 to 1) and of QEMU 9 and later (from 2) do not overlap, although all functions used here are
/// equal. So `choose_version` sets the version while the library is loaded.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, missing_docs)]
pub static mut qemu_plugin_version: c_int = 1;

/// Sets the version before QEMU reads it: constructors run inside dlopen.
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

/// Installs the plugin. QEMU calls it once, before it loads the program, and gives up unless it returns 0.
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
    let ready = if installation.target == c"x86_64" {
        hot::access_callback()
            .map(translate::set_access_callback)
            .and_then(|()| process::start(&installation.arguments))
    } else {
        Err(format!("this emulator emulates {}, not x86-64", installation.target.to_string_lossy()))
    };
    match ready {
        Ok(true) => image::at_installation(),
        Ok(false) => return 0,
        Err(error) => {
            eprintln!("reach: cannot capture: {error}");
            return 1;
        }
    }
    // SAFETY: `id` is this plugin's, and the callbacks have the types that the interface requires.
    unsafe {
        api::qemu_plugin_register_vcpu_init_cb(id, on_thread_start);
        api::qemu_plugin_register_vcpu_exit_cb(id, on_thread_end);
        api::qemu_plugin_register_vcpu_tb_trans_cb(id, translate::on_translate);
        api::qemu_plugin_register_vcpu_syscall_cb(id, syscalls::on_enter);
        api::qemu_plugin_register_vcpu_syscall_ret_cb(id, syscalls::on_return);
        api::qemu_plugin_register_atexit_cb(id, on_end, std::ptr::null_mut());
    }
    0
}

/// Called when a thread is about to start.
extern "C" fn on_thread_start(_: api::Id, vcpu: c_uint) {
    if !lane::any_started() {
        image::at_first_thread();
    }
    lane::start(vcpu);
}

/// Called when a thread has ended.
extern "C" fn on_thread_end(_: api::Id, vcpu: c_uint) {
    lane::end(vcpu);
}

/// Called when the emulator ends: after exit or, from QEMU 10 on, because of a signal.
extern "C" fn on_end(_: api::Id, _: *mut c_void) {
    process::finish(lane::current());
}
