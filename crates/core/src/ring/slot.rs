//! The buffer that a thread writes.

use super::Buffer;
use std::ptr::from_ref;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Refers to the buffer that a thread writes. It always refers to one, so that call-backs need no check.
#[repr(transparent)]
pub struct BufferSlot(AtomicPtr<Buffer>);

impl BufferSlot {
    /// Makes a slot that refers to `buffer`.
    pub const fn new(buffer: &'static Buffer) -> BufferSlot {
        BufferSlot(AtomicPtr::new(from_ref(buffer).cast_mut()))
    }

    /// Returns the buffer. For the thread that sets it.
    #[inline(always)]
    pub fn own(&self) -> &'static Buffer {
        // SAFETY: the pointer comes from a `&'static Buffer`, in `new` or `set`.
        unsafe { &*self.0.load(Ordering::Relaxed) }
    }

    /// Returns the buffer, whichever thread has set it.
    pub fn get(&self) -> &'static Buffer {
        // SAFETY: as above.
        unsafe { &*self.0.load(Ordering::Acquire) }
    }

    /// Makes the slot refer to `buffer`.
    pub fn set(&self, buffer: &'static Buffer) {
        self.0.store(from_ref(buffer).cast_mut(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_was_never_set_refers_to_the_full_buffer() {
        static FULL: Buffer = Buffer::full();
        static OTHER: Buffer = Buffer::full();
        static SLOTS: [BufferSlot; 3] = [const { BufferSlot::new(&FULL) }; 3];
        assert!(!SLOTS[1].own().push(1) && std::ptr::eq(SLOTS[2].get(), &FULL));
        SLOTS[1].set(&OTHER);
        assert!(std::ptr::eq(SLOTS[1].own(), &OTHER) && std::ptr::eq(SLOTS[0].get(), &FULL));
    }
}
