#!/usr/bin/env bash
# Builds the Python wheel into target/wheels, with maturin in a virtual environment of its own.
#
#     scripts/build-wheel.sh            for this computer's C library and newer ones; run `make build` first, whose command and
#                                       libraries are part of the wheel
#     scripts/build-wheel.sh portable   for glibc 2.28 (2018) and newer, with the compiler of Zig, which has old versions of glibc
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$PWD/target/python/tools
bin=python/reach/_bin
target=x86_64-unknown-linux-gnu
oldest=2.28

# Repairs an environment that a newer Python has made useless; needs no network if all is there.
install_tools() {
    python3 -m venv "$tools"
    "$tools/bin/python" -m pip install -q --disable-pip-version-check "$@"
}

case "${1-}" in
'')
    install_tools maturin==1.16.0
    built=target/release
    ;;
portable)
    install_tools maturin==1.16.0 ziglang==0.17.1 cargo-zigbuild==0.24.1
    export PATH="$tools/bin:$PATH"
    cargo zigbuild --release --locked --target "$target.$oldest" -p reach-cli -p reach-plugin -p reach-preload
    built=target/$target/release
    ;;
*)
    echo "usage: scripts/build-wheel.sh [portable]" >&2
    exit 2
    ;;
esac

mkdir -p "$bin"
cp LICENSE-MIT LICENSE-APACHE python/
for file in reach libreach_plugin.so libreach_preload.so; do
    install -m 755 "$built/$file" "$bin/$file.new"
    mv "$bin/$file.new" "$bin/$file"
done
# The tag of the wheel names the C library that all of it needs; maturin looks at the module only.
glibc=$(objdump -T "$bin"/* | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -1)
options=(--release --locked -q --compatibility "manylinux_2_${glibc#GLIBC_2.}" --out ../target/wheels)
[ "${1-}" != portable ] || options+=(--zig --target "$target")
rm -f target/wheels/*.whl
(cd python && "$tools/bin/maturin" build "${options[@]}")
ls -sh target/wheels/*.whl
