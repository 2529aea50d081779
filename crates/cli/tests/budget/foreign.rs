//! Traces of other tools, compressed or not.

use super::cost::{Run, assert_within_budget, folder, path};
use liblzma::stream::{Check, Filters, LzmaOptions, Stream};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;

fn read(bytes: &[u8]) -> Run {
    assert!(bytes.len() <= 1 << 20, "{} bytes", bytes.len());
    let folder = folder();
    let file = path(&folder, "bomb");
    fs::write(&file, bytes).unwrap();
    assert_within_budget(&["trace", "info", &file], Path::new(&file));
    assert_within_budget(&["trace", "check", &file], Path::new(&file))
}

/// Asserts that the run failed, with these words in its message.
fn assert_refused(run: &Run, words: &str) {
    assert!(run.status == 1 && run.message.contains(words), "{run:?}");
}

/// Compresses `content` by xz with a dictionary of this many bytes.
fn xz(content: impl Read, dictionary: u32) -> Vec<u8> {
    let mut options = LzmaOptions::new_preset(0).unwrap();
    options.dict_size(dictionary);
    let stream = Stream::new_stream_encoder(Filters::new().lzma2(&options), Check::Crc32).unwrap();
    let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
    std::io::copy(&mut { content }, &mut encoder).unwrap();
    encoder.finish().unwrap()
}

/// A record of ChampSim at this address, without accesses.
fn record(ip: u64) -> [u8; 64] {
    let mut record = [0; 64];
    record[..8].copy_from_slice(&ip.to_le_bytes());
    record
}

/// Records at addresses that differ, so that each is a block.
fn distinct_records(n: u64) -> Vec<u8> {
    (1..=n).flat_map(|i| record(i * 4096)).collect()
}

/// Returns the bytes of xz with the dictionary that its first filter states replaced: encoders take that memory themselves.
fn with_dictionary(mut xz: Vec<u8>, code: u8) -> Vec<u8> {
    // Stream header (12 bytes); block header: size, flags, filter, length of its properties, the dictionary, ..., CRC32.
    let len = (usize::from(xz[12]) + 1) * 4;
    assert_eq!((xz[14], xz[15]), (0x21, 1));
    xz[16] = code;
    let crc = crc32(&xz[12..12 + len - 4]);
    xz[12 + len - 4..12 + len].copy_from_slice(&crc.to_le_bytes());
    xz
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    };
    !bytes.iter().fold(!0, step)
}

#[test]
fn dictionaries_of_gigabytes_are_refused() {
    let plain = xz(&distinct_records(1000)[..], 1 << 20);
    assert_eq!(read(&plain).status, 0);
    // 64 MB, 512 MB, 4 GB.
    for code in [28, 34, 40] {
        let run = read(&with_dictionary(plain.clone(), code));
        assert_refused(&run, "needs more than 40 MB to decompress, too much for its length");
    }
}

#[test]
fn windows_of_zstd_are_bounded() {
    for (log, status) in [(20, 0), (26, 1), (31, 1)] {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.include_contentsize(false).unwrap();
        encoder.window_log(20).unwrap();
        encoder.write_all(&distinct_records(1000)).unwrap();
        let mut bytes = encoder.finish().unwrap();
        // The descriptor of the window follows the magic number and the descriptor of the frame.
        assert_eq!(bytes[5] >> 3, 10);
        bytes[5] = (log - 10) << 3;
        let run = read(&bytes);
        assert_eq!(run.status, status, "{run:?}");
    }
}

#[test]
fn content_is_held_against_the_length_of_the_file() {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.write_all(&distinct_records(300)).unwrap();
    std::io::copy(&mut std::io::repeat(1).take(600 << 20), &mut encoder).unwrap();
    assert_refused(&read(&encoder.finish().unwrap()), "more than 512 MB when decompressed");
}

#[test]
fn distinct_blocks_are_held_against_the_length_of_the_file() {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    for i in 0..500_000 {
        writeln!(encoder, "I  {:x},3", i * 16).unwrap();
    }
    let bytes = encoder.finish().unwrap();
    assert_refused(&read(&bytes), "distinct blocks of code");
}

/// Returns records of drmemtrace: a header, then `records` of a type, a size and a value.
fn drmemtrace(records: impl IntoIterator<Item = (u16, u16, u64)>) -> Vec<u8> {
    let header = [(25, 0, 7), (28, 9, 0x40)];
    let bytes = |(kind, size, value): (u16, u16, u64)| {
        let (kind, size, value) = (kind.to_le_bytes(), size.to_le_bytes(), value.to_le_bytes());
        kind.into_iter().chain(size).chain(value)
    };
    header.into_iter().chain(records).flat_map(bytes).collect()
}

fn zstd(content: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(content, 3).unwrap()
}

#[test]
fn records_of_drmemtrace_that_mean_much_are_read_in_time() {
    let blocks = |n: u64| (0..n).flat_map(|i| [(47, 1, 0x90), (10, 1, i * 4096)]);
    assert_refused(&read(&zstd(&drmemtrace(blocks(500_000)))), "than a trace of this length has");
    // Instructions at adjacent addresses are few blocks, and much code.
    let code = (0..500_000).flat_map(|i| [(47, 1, 0x90), (10, 1, i)]);
    assert_refused(&read(&zstd(&drmemtrace(code))), "more distinct instructions than");
    assert_refused(&read(&zstd(&drmemtrace((0..200_000).flat_map(|i| [(22, 4, i), (24, 4, i)])))), "more threads than");
    for (kind, size, value) in [(28, 25, 1), (28, 33, 0), (0, u16::MAX, 0), (17, 8, 0x0101_0101_0101_0101), (22, 4, 1)]
    {
        read(&zstd(&drmemtrace((0..1_000_000).map(|_| (kind, size, value)))));
    }
    // Threads that take turns with each access.
    read(&zstd(&drmemtrace((0..1_000_000).flat_map(|i| [(22, 4, i % 2), (0, 8, 8 * i)]))));
}

#[test]
fn zip_archives_are_bounded() {
    // A directory of as many parts as fit, all of the same place.
    let mut local = b"PK\x03\x04\x14\0\0\0\0\0".to_vec();
    local.resize(30, 0);
    let mut record = b"PK\x01\x02\x14\0\x14\0".to_vec();
    record.resize(46, 0);
    let n = 20_000u32;
    let directory = record.repeat(n as usize);
    let mut end = b"PK\x05\x06\0\0\0\0".to_vec();
    end.extend([(n as u16).to_le_bytes(), (n as u16).to_le_bytes()].concat());
    end.extend((directory.len() as u32).to_le_bytes());
    end.extend((local.len() as u32).to_le_bytes());
    end.extend([0, 0]);
    assert_eq!(read(&[local, directory, end].concat()).status, 1);
    assert_refused(&read(b"PK\x03\x04 without a directory"), "lacks the directory at its end");
}

#[test]
fn lines_of_lackey_that_mean_much_are_read_in_time() {
    let bytes = |line: &str| line.repeat((1 << 20) / line.len()).into_bytes();
    read(&bytes(" L 0,65536\n"));
    read(&bytes(" M 0,65536\n"));
    let blocks: String = (0..).map(|i: u64| format!("I  {:x},1\n", i * 4096)).take(60_000).collect();
    read(blocks.as_bytes());
    let processes: String = (0..20_000).map(|i| format!("=={i}== Lackey, an example Valgrind tool\n")).collect();
    assert_refused(&read(format!("I  0,1\n{processes}").as_bytes()), "more processes than");
    read(&vec![b'I'; 1 << 20]);
    read(&vec![b'\n'; 1 << 20]);
}
