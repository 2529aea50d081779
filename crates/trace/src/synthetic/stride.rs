//! `stride`: loads at a fixed distance over an area, repeatedly: the classic probe of TLB and cache sizes.

use super::parameter::{MAX_BYTES, MAX_COUNT, Parameter, ValueKind, Values};
use super::process::Process;
use super::program::{Description, Program};
use super::touch::Sweep;

pub(super) const ABOUT: Description = Description {
    name: "stride",
    summary: "loads at a fixed distance over an area, repeatedly, to probe TLB and cache sizes",
    parameters: &[
        Parameter { name: "bytes", kind: ValueKind::Bytes(8, MAX_BYTES), default: "16M", summary: "size of the area" },
        Parameter { name: "stride", kind: ValueKind::Bytes(8, MAX_BYTES), default: "64", summary: "distance of loads" },
        Parameter {
            name: "passes",
            kind: ValueKind::Count(1, MAX_COUNT),
            default: "64",
            summary: "number of passes over the area",
        },
    ],
    build,
};

fn build(values: &Values, process: &mut Process) -> Result<Box<dyn Program>, String> {
    let bytes = values.number("bytes");
    // add sum, [p]; add p, stride; cmp p, end; jb
    let (code, base) = (process.block(4), process.mmap(bytes).0);
    Ok(Box::new(Sweep::new(code, base, bytes, values.number("stride"), values.number("passes"))?))
}

#[cfg(test)]
mod tests {
    use super::super::tests::data;

    #[test]
    fn each_pass_starts_at_the_beginning() {
        let loads = data("stride:bytes=200,stride=64,passes=2");
        let offsets: Vec<u64> = loads.iter().map(|r| r.addr() - loads[0].addr()).collect();
        assert_eq!(offsets, [0, 64, 128, 192, 0, 64, 128, 192]);
    }
}
