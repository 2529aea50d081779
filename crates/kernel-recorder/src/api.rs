//! The part of QEMU's plugin interface that is used, as of version 1 (QEMU 7.2).

use std::ffi::{c_char, c_int, c_uint, c_void};

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

pub type TransCb = extern "C" fn(Id, *mut Tb);
pub type ExecCb = extern "C" fn(c_uint, *mut c_void);
pub type MemCb = extern "C" fn(c_uint, MemInfo, u64, *mut c_void);
pub type AtexitCb = extern "C" fn(Id, *mut c_void);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, cb: TransCb);
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(tb: *mut Tb, cb: ExecCb, flags: c_int, data: *mut c_void);
    pub fn qemu_plugin_register_vcpu_mem_cb(insn: *mut Insn, cb: MemCb, flags: c_int, rw: c_int, data: *mut c_void);
    pub fn qemu_plugin_register_atexit_cb(id: Id, cb: AtexitCb, data: *mut c_void);
    pub fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub fn qemu_plugin_tb_vaddr(tb: *const Tb) -> u64;
    pub fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    pub fn qemu_plugin_insn_size(insn: *const Insn) -> usize;
    pub fn qemu_plugin_insn_data(insn: *const Insn) -> *const u8;
    pub fn qemu_plugin_mem_size_shift(info: MemInfo) -> c_uint;
    pub fn qemu_plugin_mem_is_store(info: MemInfo) -> bool;
}
