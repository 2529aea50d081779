#!/usr/bin/env bash
# Records what a kernel fetches, loads and stores for each kind of entry: boots it in QEMU's system emulator, with
# kernels/calls.c as its only program. docs/kernel.md says what the trace is used for.
#
#     kernels/record.sh VMLINUZ OUT.reach
#
# Needs cc with a static C library, cpio, qemu-system-x86_64 with plugins (Debian: qemu-system-x86) and about two minutes.
set -euo pipefail

fail() { printf 'record: %s\n' "$*" >&2; exit 1; }
[ $# -eq 2 ] || { echo "usage: kernels/record.sh VMLINUZ OUT.reach" >&2; exit 2; }
kernel=$(realpath -e -- "$1") || fail "$1: no such file"
out=$(realpath -m -- "$2")
here=$(cd "$(dirname "$0")" && pwd)
for tool in cc cpio cargo qemu-system-x86_64; do
    command -v "$tool" >/dev/null || fail "$tool is missing"
done

cargo build --release --quiet --manifest-path "$here/../Cargo.toml" --package reach-kernel-recorder
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/root/tmp" "$work/root/proc" "$work/root/dev"
cc -O1 -static -o "$work/root/init" "$here/calls.c"
(cd "$work/root" && find . | cpio --quiet -o -H newc) > "$work/initramfs"
# The names of the markers, in the order of their numbers.
names=$(sed -n '/^#define KINDS/,/^$/p' "$here/calls.c" | grep -o 'X([a-z0-9_]*)' | sed 's/X(\(.*\))/\1/' | paste -sd:)
# Neither mitigations nor page-table isolation: processors that need none are the rule by now. No randomised addresses, so
# that recordings of the same kernel are alike.
timeout 600 qemu-system-x86_64 -M q35 -m 512 -smp 1 -cpu max,la57=off -nographic -no-reboot -nodefaults -serial file:"$work/console" \
    -kernel "$kernel" -initrd "$work/initramfs" \
    -append "console=ttyS0 quiet panic=-1 nokaslr pti=off mitigations=off transparent_hugepage=never audit=0" \
    -plugin "$here/../target/release/libreach_kernel_recorder.so,names=$names,out=$out" </dev/null
grep -q 'calls: done' "$work/console" || { cat "$work/console" >&2; fail "the guest did not finish"; }
