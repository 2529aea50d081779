//! The memory of a ring: a shared mapping with a header and buffers, which other processes write at any time.

use super::{Buffer, Header};
#[cfg(not(loom))]
pub use mapped::Memory;
#[cfg(loom)]
pub use modelled::Memory;

#[cfg(not(loom))]
mod mapped {
    use super::super::BUFFER_BYTES;
    use super::{Buffer, Header};
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::ptr::{NonNull, null_mut};

    /// The mapped memory of a ring. Unmapped when it is dropped.
    ///
    /// Header and buffers consist of atomics only, for which every bit pattern is a value. So references to them are sound
    /// whatever other processes write, as long as the memory is mapped.
    pub struct Memory {
        /// The header's address, a multiple of [`BUFFER_BYTES`]. The buffers follow.
        base: NonNull<u8>,
        buffers: usize,
        store: Store,
    }

    /// What the memory was obtained from, to give it back.
    enum Store {
        /// Reserved addresses: first and number of bytes.
        Mapping(NonNull<libc::c_void>, usize),
        #[cfg(test)]
        Heap(std::alloc::Layout),
    }

    // SAFETY: the memory belongs to this value, and has nothing but atomics.
    unsafe impl Send for Memory {}
    // SAFETY: as above.
    unsafe impl Sync for Memory {}

    impl Memory {
        /// Maps a file of shared memory, as long as it is.
        ///
        /// A process that can shorten the file can end this one by SIGBUS. The reader's file is sealed against that.
        ///
        /// # Errors
        /// The errors of fstat and mmap, and when the file is too short for a header.
        pub fn map(file: &File) -> io::Result<Memory> {
            let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
            let Some(buffers) = len.checked_sub(size_of::<Header>()).map(|rest| rest / BUFFER_BYTES) else {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is too short for a ring"));
            };
            // The kernel aligns mappings to pages only, so reserve more than is needed, and map at the first aligned address.
            let reserved_len = len.checked_add(BUFFER_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
            let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
            let reserved = unsafe { libc::mmap(null_mut(), reserved_len, libc::PROT_NONE, private, -1, 0) };
            let at = NonNull::new(reserved).filter(|_| reserved != libc::MAP_FAILED);
            let store = Store::Mapping(at.ok_or_else(io::Error::last_os_error)?, reserved_len);
            let base = reserved.map_addr(|address| address.next_multiple_of(BUFFER_BYTES));
            // From here on, dropping the value unmaps the reservation.
            let memory = Memory { base: NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?, buffers, store };
            let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
            // SAFETY: the addresses lie in the reservation, to which nothing refers.
            let mapped = unsafe { libc::mmap(base, len, rights, flags, file.as_raw_fd(), 0) };
            if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(memory) }
        }

        /// Makes private memory for `buffers` buffers, filled with zeroes, where there are no mappings (Miri).
        #[cfg(test)]
        pub(crate) fn private(buffers: usize) -> Memory {
            let layout = std::alloc::Layout::from_size_align(super::super::Ring::bytes(buffers), BUFFER_BYTES).unwrap();
            // SAFETY: the layout is not empty.
            let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).unwrap();
            Memory { base, buffers, store: Store::Heap(layout) }
        }

        pub(super) fn header(&self) -> &Header {
            // SAFETY: the memory begins with a header, is aligned for it, and stays mapped as long as `self`.
            unsafe { self.base.cast().as_ref() }
        }

        pub(super) fn buffers(&self) -> &[Buffer] {
            // SAFETY: as above; `map` has computed the number of buffers that fit behind the header.
            unsafe { std::slice::from_raw_parts(self.base.add(size_of::<Header>()).cast().as_ptr(), self.buffers) }
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            match self.store {
                // SAFETY: `map` made the mapping, and no reference to it outlives `self`.
                Store::Mapping(at, len) => unsafe {
                    libc::munmap(at.as_ptr(), len);
                },
                // SAFETY: `private` allocated it with this layout, and no reference to it outlives `self`.
                #[cfg(test)]
                Store::Heap(layout) => unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) },
            }
        }
    }
}

#[cfg(loom)]
mod modelled {
    use super::{Buffer, Header};

    /// A ring's memory that consists of loom's atomics.
    pub struct Memory {
        header: Header,
        buffers: Box<[Buffer]>,
    }

    impl Memory {
        pub(crate) fn private(buffers: usize) -> Memory {
            Memory { header: Header::default(), buffers: (0..buffers).map(|_| Buffer::default()).collect() }
        }

        pub(super) fn header(&self) -> &Header {
            &self.header
        }

        pub(super) fn buffers(&self) -> &[Buffer] {
            &self.buffers
        }
    }
}

impl Memory {
    pub(super) fn parts(&self) -> (&Header, &[Buffer]) {
        (self.header(), self.buffers())
    }
}
