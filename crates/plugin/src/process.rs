//! Start, fork and end of the process.

use crate::{image, lane, placement, touched, vfork, writer};
use reach_core::lock::Held;
use reach_core::ring::{Emulator, Message};
use std::cell::Cell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

static FINISHED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The locks that a forking thread holds, so that no other thread holds them in the child. Parent and child each have a
    /// copy, and release their own.
    static HELD: Cell<Option<(Held<'static>, Held<'static>)>> = const { Cell::new(None) };
}

/// Maps the ring and takes the process's place in the tree, as the plugin's arguments say
/// ([`Emulator::arguments`](reach_core::ring::Emulator::arguments)). Returns `false` when the ring is gone after an
/// exec; the program then continues untraced.
///
/// # Errors
/// When an argument is missing or invalid, or the ring cannot be mapped.
pub fn start(args: &[&[u8]]) -> Result<bool, String> {
    let value = |name: &str| {
        let found = args.iter().find_map(|arg| arg.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        found.ok_or_else(|| format!("the plugin's argument `{name}=` is missing; start it by `reach`"))
    };
    let number = |name| {
        let text = std::str::from_utf8(value(name)?).ok().and_then(|text| text.parse::<u32>().ok());
        text.ok_or_else(|| format!("the plugin's argument `{name}=` is not a number"))
    };
    let path = |name| value(name).map(|bytes| PathBuf::from(OsStr::from_bytes(bytes)));
    let emulator = Emulator {
        qemu: path("qemu")?,
        cpu: String::from_utf8_lossy(value("cpu")?).into_owned(),
        plugin: path("plugin")?,
        ring: path("ring")?,
        layout: number("layout")?,
        grants_hugetlb: number("hugetlb")? != 0,
        aligns_shared: number("align_shared")? != 0,
        reverses_environment: number("reverses")? != 0,
    };
    let handed_over = value("after_exec").ok().map(|_| number("after_exec")).transpose()?;
    // The reader existed just before the exec, and was killed since.
    let Some(ring) = writer::map_ring(&emulator.ring, handed_over)? else { return Ok(false) };
    let program = std::path::absolute(path("program")?).map_err(|error| format!("the program's path: {error}"))?;
    let seed = match emulator.layout {
        0 => 0,
        seed => u64::from(seed) << 32 | u64::from(number("process")?),
    };
    let memory = placement::Memory { grants_hugetlb: emulator.grants_hugetlb, aligns_shared: emulator.aligns_shared };
    writer::start(ring, emulator, program, number("process")?)?;
    lane::adopt(0, number("thread")?);
    placement::begin(image::relocatable(writer::program()), image::stack_bytes(), seed, memory);
    // SAFETY: the handlers take no arguments and never unwind.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child)) };
    Ok(true)
}

/// Announces the end of the process, once.
pub fn finish(vcpu: u32) {
    if !FINISHED.swap(true, Ordering::Relaxed) {
        lane::fence(vcpu);
        lane::send(vcpu, &Message::Exit);
        lane::publish(vcpu);
    }
}

/// Assigns the child's number and announces it before the child exists, so that no message of the child can come
/// earlier.
extern "C" fn before_fork() {
    let vcpu = lane::current();
    let child = writer::ring().header().next_process.fetch_add(1, Ordering::Relaxed);
    lane::of(vcpu).forking.set(child + 1);
    lane::fence(vcpu);
    let shares_memory = lane::of(vcpu).shares_memory.get() != 0;
    if shares_memory {
        vfork::before();
    }
    lane::send(vcpu, &Message::Fork { child, shares_memory });
    lane::publish(vcpu);
    HELD.set(Some((writer::hold_dictionary(), placement::hold())));
}

extern "C" fn after_fork_in_parent() {
    drop(HELD.take());
    lane::of(lane::current()).vfork_pipe.set(vfork::in_parent().map_or(0, |pipe| pipe as u64 + 1));
}

extern "C" fn after_fork_in_child() {
    drop(HELD.take());
    vfork::in_child();
    touched::forget();
    let vcpu = lane::current();
    writer::start_child((lane::of(vcpu).forking.get() as u32).wrapping_sub(1));
    FINISHED.store(false, Ordering::Relaxed);
    lane::forget_all(vcpu, writer::next_thread());
    // The reader learns of the process from its first buffer.
    lane::open(vcpu);
    let lane = lane::of(vcpu);
    touched::report(vcpu, lane.child_tid.get(), 4, true);
    touched::report(vcpu, lane.rseq.get(), 32, true);
}
