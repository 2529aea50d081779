//! The lists of a ring under every order of their operations. Loom tries them all, up to three preemptions of a thread.

use super::*;
use loom::thread;
use std::collections::VecDeque;

fn explore(world: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(world);
}

fn owner(thread: u32) -> Owner {
    Owner { process: 0, image: 0, thread, pid: 1 }
}

/// Takes a buffer, writes the number of the thread, and publishes it. Returns whether there was a buffer.
fn write_one(ring: &Ring, thread: u32) -> bool {
    let Some(buffer) = ring.acquire(BufferKind::Stream, owner(thread)) else { return false };
    assert!(buffer.push(u64::from(thread)));
    ring.publish(buffer);
    true
}

/// Reads all published buffers and frees them. Returns the words.
fn read_all(reader: &mut Reader) -> Vec<u64> {
    let (mut order, mut words) = (VecDeque::new(), Vec::new());
    reader.take_published(&mut order).unwrap();
    for index in order {
        let buffer = reader.ring().buffer(index).unwrap();
        let written = buffer.words(0, buffer.cursor());
        assert_eq!(written.len(), 1, "a buffer has one owner at a time");
        let word = written[0].load(Ordering::Relaxed);
        assert_eq!(word, u64::from(buffer.owner().thread));
        words.push(word);
        reader.release(index);
    }
    words
}

#[test]
fn two_writers_never_get_one_buffer_and_no_word_is_lost() {
    explore(|| {
        let ring = Ring::create(Memory::private(2));
        let mut reader = Reader::new(ring.clone(), 2);
        let writers: Vec<_> = [1, 2]
            .map(|thread| {
                let ring = ring.clone();
                thread::spawn(move || write_one(&ring, thread))
            })
            .into_iter()
            .collect();
        let mut words = read_all(&mut reader);
        let written = writers.into_iter().map(|writer| writer.join().unwrap()).filter(|&written| written).count();
        words.extend(read_all(&mut reader));
        words.sort_unstable();
        assert_eq!((written, words), (2, vec![1, 2]));
    });
}

/// A writer may read the link of the first free buffer, while another takes that buffer and the next, and gives back only the
/// first (the ABA problem).
#[test]
fn a_buffer_in_use_is_never_taken_again() {
    explore(|| {
        let ring = Ring::create(Memory::private(2));
        let mut reader = Reader::new(ring.clone(), 2);
        let other = ring.clone();
        let writer = thread::spawn(move || {
            let taken = (0..2).filter_map(|_| other.acquire(BufferKind::Stream, owner(1)));
            taken.map(|buffer| other.index(buffer)).collect::<Vec<_>>()
        });
        let mut kept = Vec::new();
        if let Some(first) = ring.acquire(BufferKind::Stream, owner(2)) {
            kept.extend(ring.acquire(BufferKind::Stream, owner(2)).map(|second| ring.index(second)));
            ring.publish(first);
            let mut order = VecDeque::new();
            reader.take_published(&mut order).unwrap();
            order.into_iter().for_each(|index| reader.release(index));
        }
        let taken = writer.join().unwrap();
        assert!(taken.iter().all(|index| !kept.contains(index)), "{taken:?} and {kept:?}");
        kept.iter().for_each(|&index| assert_eq!(ring.buffer(index).unwrap().owner(), owner(2)));
    });
}
