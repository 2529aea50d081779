#!/usr/bin/env bash
# Builds the Python wheel into target/wheels, with maturin in a virtual environment of its own. Run `make build` first: the command
# and its libraries are part of the wheel.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$PWD/target/python/tools
bin=python/reach/_bin
if ! "$tools/bin/maturin" --version >/dev/null 2>&1; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install -q --disable-pip-version-check maturin==1.16.0
fi
mkdir -p "$bin"
cp LICENSE-MIT LICENSE-APACHE python/
for file in reach libreach_plugin.so libreach_preload.so; do
    # Without the tables for debuggers, which are five times as large as the rest.
    strip --strip-debug -o "$bin/$file.new" "target/release/$file"
    chmod 755 "$bin/$file.new"
    mv "$bin/$file.new" "$bin/$file"
done
# The tag of the wheel names the C library that all of it needs; maturin looks at the module only.
glibc=$(objdump -T "$bin"/* | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -1)
rm -f target/wheels/*.whl
(cd python && "$tools/bin/maturin" build --release --locked -q --compatibility "manylinux_2_${glibc#GLIBC_2.}" --out ../target/wheels)
ls -sh target/wheels/*.whl
