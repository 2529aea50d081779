//! The part of QEMU's plugin interface that is used: functions that are equal in all versions of the interface from 1
//! (QEMU 7.2) on. It is written from the interface's documentation; the C header is not needed.
//!
//! Two libraries are loaded by an emulator: `plugin` by the one of programs, `kernel-recorder` by the one of systems.

// Names, and what they mean, are those of QEMU's documentation.
#![allow(missing_docs)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// QEMU's identifier of the plugin.
pub type Id = u64;
/// Packed kind and size of an access.
pub type MemInfo = u32;

/// A block being translated. It is valid during the callback only.
#[repr(C)]
pub struct Tb {
    _private: [u8; 0],
}

/// An instruction of a block.
#[repr(C)]
pub struct Insn {
    _private: [u8; 0],
}

/// The first members of the structure that QEMU passes at installation.
#[repr(C)]
pub struct Info {
    pub target_name: *const c_char,
    pub version_min: c_int,
    pub version_cur: c_int,
    pub system_emulation: bool,
}

/// `QEMU_PLUGIN_CB_NO_REGS`.
pub const NO_REGISTERS: c_int = 0;
/// `QEMU_PLUGIN_MEM_RW`.
pub const READS_AND_WRITES: c_int = 3;

pub type VcpuCb = extern "C" fn(Id, c_uint);
pub type TransCb = extern "C" fn(Id, *mut Tb);
pub type ExecCb = extern "C" fn(c_uint, *mut c_void);
pub type MemCb = extern "C" fn(c_uint, MemInfo, u64, *mut c_void);
pub type SyscallCb = extern "C" fn(Id, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
pub type SyscallRetCb = extern "C" fn(Id, c_uint, i64, i64);
pub type AtexitCb = extern "C" fn(Id, *mut c_void);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_init_cb(id: Id, cb: VcpuCb);
    pub fn qemu_plugin_register_vcpu_exit_cb(id: Id, cb: VcpuCb);
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, cb: TransCb);
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(tb: *mut Tb, cb: ExecCb, flags: c_int, data: *mut c_void);
    pub fn qemu_plugin_register_vcpu_mem_cb(insn: *mut Insn, cb: MemCb, flags: c_int, rw: c_int, data: *mut c_void);
    pub fn qemu_plugin_register_vcpu_syscall_cb(id: Id, cb: SyscallCb);
    pub fn qemu_plugin_register_vcpu_syscall_ret_cb(id: Id, cb: SyscallRetCb);
    pub fn qemu_plugin_register_atexit_cb(id: Id, cb: AtexitCb, data: *mut c_void);
    pub fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub fn qemu_plugin_tb_vaddr(tb: *const Tb) -> u64;
    pub fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    pub fn qemu_plugin_insn_size(insn: *const Insn) -> usize;
    pub fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    pub fn qemu_plugin_insn_haddr(insn: *const Insn) -> *const u8;
    pub fn qemu_plugin_insn_data(insn: *const Insn) -> *const u8;
    pub fn qemu_plugin_mem_size_shift(info: MemInfo) -> c_uint;
    pub fn qemu_plugin_mem_is_store(info: MemInfo) -> bool;
}

/// What QEMU says of itself at installation, and the arguments of the plugin.
pub struct Installation<'a> {
    /// The architecture that is emulated.
    pub target: &'a CStr,
    /// Whether a whole system is emulated, rather than a program.
    pub system: bool,
    /// The arguments, as the user wrote them.
    pub arguments: Vec<&'a [u8]>,
}

impl Installation<'_> {
    /// Reads what QEMU passes to `qemu_plugin_install`.
    ///
    /// # Safety
    /// `info` must be valid, and `argv` must point to `argc` strings. QEMU guarantees both, during that call.
    pub unsafe fn of<'a>(info: *const Info, argc: c_int, argv: *const *const c_char) -> Installation<'a> {
        // SAFETY: the caller passes valid pointers.
        unsafe {
            let arguments = (0..argc as usize).map(|i| CStr::from_ptr(*argv.add(i)).to_bytes()).collect();
            Installation { target: CStr::from_ptr((*info).target_name), system: (*info).system_emulation, arguments }
        }
    }
}
