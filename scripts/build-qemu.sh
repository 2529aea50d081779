#!/usr/bin/env bash
# Builds the emulator that captures programs, with plugins, and puts it into the cache folder, where `reach` looks for
# one before it looks in PATH. docs/qemu.md says when that is wanted. Needs Debian or a relative of it, some five
# minutes of two cores, and 1 GB of disk until it is done.
#
#     scripts/build-qemu.sh              from Debian's source package
#     scripts/build-qemu.sh FILE.tar.xz  from a source archive of QEMU, 9.0 or newer
set -euo pipefail

say() { printf 'build-qemu: %s\n' "$*"; }
fail() { printf 'build-qemu: %s\n' "$*" >&2; exit 1; }

case "${1-}" in
    -*) echo "usage: scripts/build-qemu.sh [FILE.tar.xz]" >&2; exit 2 ;;
    '') archive= ;;
    *) archive=$(realpath -e -- "$1") || fail "$1: no such file" ;;
esac

# Debian's release whose source package is taken. Any that has QEMU 9 or newer will do.
release=trixie
target=${XDG_CACHE_HOME:-$HOME/.cache}/reach/qemu
mkdir -p "$target"
work=$(mktemp -d "$target/build.XXXXXX")
trap 'rm -rf "$work"' EXIT

# What the build needs, by the file that shows whether it is there.
missing=()
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v ninja >/dev/null || missing+=(ninja-build)
command -v pkg-config >/dev/null || missing+=(pkg-config)
command -v bzip2 >/dev/null || missing+=(bzip2)
command -v xz >/dev/null || missing+=(xz-utils)
pkg-config --exists glib-2.0 2>/dev/null || missing+=(libglib2.0-dev)
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
if [ ${#missing[@]} -gt 0 ]; then
    command -v apt-get >/dev/null || fail "this is no Debian; install what corresponds to: ${missing[*]}"
    [ "$(id -u)" -eq 0 ] || fail "not root; run: sudo apt-get install --no-install-recommends ${missing[*]}"
    say "installing ${missing[*]}"
    apt-get update -qq </dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
fi

cd "$work"
if [ -z "$archive" ]; then
    command -v apt-get >/dev/null || fail "this is no Debian; give a source archive of QEMU (https://download.qemu.org)"
    # Lists and packages of its own: the system's stay as they are.
    mkdir -p lists/partial archives/partial
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -f "$keys" ] || fail "$keys is missing; install debian-archive-keyring, or give a source archive of QEMU"
    echo "deb-src [signed-by=$keys] http://deb.debian.org/debian $release main" >sources.list
    options=(-qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- -o APT::Sandbox::User=root
        -o Dir::State::lists="$work/lists" -o Dir::Cache="$work")
    say "fetching the source of QEMU from Debian ($release)"
    apt-get "${options[@]}" update
    apt-get "${options[@]}" source --download-only qemu 2>/dev/null
    archive=$(echo "$work"/qemu_*.orig.tar.xz)
fi
mkdir source
tar --strip-components=1 -C source -xf "$archive" || fail "$archive cannot be unpacked"
version=$(cat source/VERSION) || fail "$archive is no source of QEMU"

# QEMU asks for a newer meson than many systems have, and its configure script for two small Python packages.
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check 'meson>=1.5' pycotap distlib ||
    fail "pip could not fetch meson, pycotap and distlib; is there a network?"

say "building QEMU $version"
mkdir source/build
cd source/build
export PATH="$work/venv/bin:$PATH"
# No firmware: only machines as a whole would need it, and Debian's source has none.
{
    ../configure --python="$work/venv/bin/python3" --target-list=x86_64-linux-user --without-default-features \
        --enable-plugins --disable-system --disable-tools --disable-docs --disable-install-blobs
    ninja qemu-x86_64
} >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; fail "QEMU $version could not be built"; }
./qemu-x86_64 -h | grep -q '^-plugin ' || fail "QEMU $version was built without plugins"

strip -o "$target/qemu-x86_64.new" qemu-x86_64
mv "$target/qemu-x86_64.new" "$target/qemu-x86_64"
say "QEMU $version is in $target"
