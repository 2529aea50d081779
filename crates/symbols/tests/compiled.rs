//! Frames of a program that is compiled here.

use object::{Object, ObjectSection};
use reach_symbols::Symbols;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "\
static inline __attribute__((always_inline)) int add(int a, int b) {
    return a * 3 + b;
}
__attribute__((noinline)) int outer(volatile int *a) {
    return add(*a, 4);
}
int main(void) { int a = 1; return outer(&a); }
";

/// Compiles the source; `None` without a compiler.
fn compile(folder: &Path, options: &[&str]) -> Option<String> {
    let (source, program) = (folder.join("a.c"), folder.join("a"));
    std::fs::write(&source, SOURCE).unwrap();
    let status = Command::new("cc").args(options).arg("-o").arg(&program).arg(&source).status().ok()?;
    assert!(status.success());
    Some(program.to_str().unwrap().to_owned())
}

/// Returns the offset of the function `name` in the file, and its length, as nm has it. Executables begin at offset 0 here.
fn place(program: &str, name: &str) -> (u64, u64) {
    let out = Command::new("nm").args(["-S", program]).output().unwrap().stdout;
    let out = String::from_utf8(out).unwrap();
    let line = out.lines().find(|line| line.ends_with(&format!(" {name}"))).unwrap();
    let number = |at| u64::from_str_radix(line.split_whitespace().nth(at).unwrap(), 16).unwrap();
    (number(0), number(1))
}

#[test]
fn functions_lines_and_inlined_frames_come_from_debugging_information() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), &["-O2", "-g"]) else { return };
    let (start, len) = place(&program, "outer");
    let mut symbols = Symbols::default();
    let frames: Vec<_> = (start..start + len).map(|at| symbols.frames(&program, at)).collect();
    assert!(frames.iter().all(|frames| frames.last().unwrap().function.as_deref() == Some("outer")), "{frames:?}");
    let inlined = frames.iter().find(|frames| frames.len() == 2).expect("add is inlined");
    assert_eq!(inlined[0].function.as_deref(), Some("add"));
    assert_eq!((inlined[0].line, inlined[1].line), (Some(2), Some(5)));
    assert!(inlined[0].source.as_deref().unwrap().ends_with("a.c"));
    // Padding between functions, and what lies beyond the file, have no frames of their own.
    assert!(symbols.frames(&program, 1 << 40).is_empty());
}

#[test]
fn without_debugging_information_the_symbol_table_names_functions() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), &["-O2"]) else { return };
    let (start, _) = place(&program, "outer");
    let frames = Symbols::default().frames(&program, start);
    assert_eq!(frames.len(), 1, "{frames:?}");
    assert_eq!((frames[0].function.as_deref(), &frames[0].source), (Some("outer"), &None));
}

#[test]
fn files_that_are_no_programs_have_no_frames() {
    let folder = tempfile::tempdir().unwrap();
    let mut symbols = Symbols::default();
    for (name, bytes) in [("empty", &b""[..]), ("text", b"hello"), ("cut", b"\x7fELF\x02\x01\x01")] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        assert!(symbols.frames(path.to_str().unwrap(), 0).is_empty(), "{name}");
    }
    assert!(symbols.frames("/dev/zero", 0).is_empty());
    assert!(symbols.frames(folder.path().to_str().unwrap(), 0).is_empty());
}

#[test]
fn a_file_whose_sections_claim_to_be_huge_has_no_frames() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), &["-O2", "-g", "-gz"]) else { return };
    let (start, _) = place(&program, "outer");
    assert!(Symbols::default().frames(&program, start)[0].line.is_some());
    let mut bytes = std::fs::read(&program).unwrap();
    let section = {
        let file = object::File::parse(&*bytes).unwrap();
        file.section_by_name(".debug_info").unwrap().file_range().unwrap()
    };
    // The header of a compressed section: type, reserved, size.
    let size = section.0 as usize + 8;
    bytes[size..size + 8].copy_from_slice(&(1u64 << 40).to_le_bytes());
    std::fs::write(&program, bytes).unwrap();
    assert!(Symbols::default().frames(&program, start).is_empty());
}
