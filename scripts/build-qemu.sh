#!/usr/bin/env bash
# Builds the emulator that captures programs: QEMU's user-mode emulator with plugins. Installs it in the cache folder, where
# `reach` looks before PATH. docs/qemu.md says when that is needed. Needs Debian or a derivative, about five minutes on two
# cores, and 1 GB of disk during the build.
#
#     scripts/build-qemu.sh              from Debian's source package, from the mirror that apt is set up with
#     scripts/build-qemu.sh FILE.tar.xz  from a source archive of QEMU, 9.0 or newer
set -euo pipefail

say() { printf 'build-qemu: %s\n' "$*"; }
fail() { printf 'build-qemu: %s\n' "$*" >&2; exit 1; }

case "${1-}" in
    -*) echo "usage: scripts/build-qemu.sh [FILE.tar.xz]" >&2; exit 2 ;;
    '') archive= ;;
    *) archive=$(realpath -e -- "$1") || fail "$1: no such file" ;;
esac

scripts=$(cd "$(dirname "$0")" && pwd)
# The Debian release whose source package is used. Any release with QEMU 9 or newer works.
release=trixie
target=${XDG_CACHE_HOME:-$HOME/.cache}/reach/qemu
mkdir -p "$target"
work=$(mktemp -d "$target/build.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Installs the packages that the build needs, each detected by a file or command of it.
missing=()
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v ninja >/dev/null || missing+=(ninja-build)
command -v pkg-config >/dev/null || missing+=(pkg-config)
command -v bzip2 >/dev/null || missing+=(bzip2)
command -v xz >/dev/null || missing+=(xz-utils)
pkg-config --exists glib-2.0 2>/dev/null || missing+=(libglib2.0-dev)
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
if [ ${#missing[@]} -gt 0 ]; then
    command -v apt-get >/dev/null || fail "apt-get is missing; install what corresponds to these Debian packages: ${missing[*]}"
    [ "$(id -u)" -eq 0 ] || fail "not root; run: sudo apt-get install --no-install-recommends ${missing[*]}"
    say "installing ${missing[*]}"
    apt-get update -qq </dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
fi

# Downloads Debian's source package of QEMU, and sets $archive to it. Tries each mirror in apt's configuration: it may carry
# other releases than the installed one. Lists and packages are kept in $work; the system's do not change.
download() {
    local keys=/usr/share/keyrings/debian-archive-keyring.gpg mirror
    local options=(-qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- -o APT::Sandbox::User=root
        -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work")
    [ -f "$keys" ] || fail "$keys is missing; install debian-archive-keyring, or give a source archive of QEMU"
    mkdir -p lists/partial archives/partial
    while read -r mirror; do
        say "downloading the source of QEMU ($release) from $mirror"
        echo "deb-src [signed-by=$keys] $mirror $release main" >sources.list
        if apt-get "${options[@]}" update </dev/null && apt-get "${options[@]}" source --download-only qemu </dev/null 2>/dev/null
        then
            archive=$(echo "$work"/qemu_*.orig.tar.xz)
            return
        fi
    done < <("$scripts/debian-mirror.sh")
    fail "apt's configuration names no mirror that carries Debian $release; give a source archive of QEMU"
}

cd "$work"
[ -n "$archive" ] || download
mkdir source
tar --strip-components=1 -C source -xf "$archive" || fail "$archive cannot be unpacked"
version=$(cat source/VERSION) || fail "$archive holds no source of QEMU"

# QEMU needs a newer meson than many systems package, and its configure script needs two small Python packages.
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check 'meson>=1.5' pycotap distlib ||
    fail "pip could not install meson, pycotap and distlib; check the network and pip's configuration"

say "building QEMU $version"
mkdir source/build
cd source/build
export PATH="$work/venv/bin:$PATH"
# Without firmware: only system emulation needs it, and Debian's source package omits it.
{
    ../configure --python="$work/venv/bin/python3" --target-list=x86_64-linux-user --without-default-features \
        --enable-plugins --disable-system --disable-tools --disable-docs --disable-install-blobs
    ninja qemu-x86_64
} >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; fail "QEMU $version could not be built; the end of the log is above"; }
./qemu-x86_64 -h | grep -q '^-plugin ' || fail "QEMU $version was built without plugins"

strip -o "$target/qemu-x86_64.new" qemu-x86_64
mv "$target/qemu-x86_64.new" "$target/qemu-x86_64"
say "installed QEMU $version in $target"
