#!/usr/bin/env bash
# Installs what Reach needs and this system lacks: a C compiler and linker, and a QEMU with plugins. If nothing is missing,
# it needs neither network nor root. Can be run repeatedly.
#
#     scripts/setup.sh            install what is missing
#     scripts/setup.sh --tests    and the browser that tests open pages in, if this user may install packages
#     scripts/setup.sh --check    only report what is missing; exit status 1 if anything is
set -euo pipefail
cd "$(dirname "$0")/.."

check_only=false tests=false
case "${1-}" in
    '') ;;
    --check) check_only=true ;;
    --tests) tests=true ;;
    *) echo "usage: scripts/setup.sh [--check | --tests]" >&2; exit 2 ;;
esac

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

has_plugins() {
    local help
    help=$("$1" -h 2>/dev/null) || true
    [[ $help == *$'\n-plugin '* ]]
}

# Prints the emulator that `reach` will use: $REACH_QEMU if set, else the first one with plugins in the cache folder or
# PATH. If none has plugins, prints the first one without; prints nothing if there is none.
find_qemu() {
    if [ -n "${REACH_QEMU-}" ]; then printf '%s\n' "$REACH_QEMU"; return; fi
    local cache=${XDG_CACHE_HOME:-${HOME-}/.cache}/reach/qemu places name folder first=
    local -a folders
    for places in "$cache:$cache/bin" "$PATH"; do
        IFS=: read -ra folders <<<"$places"
        for name in qemu-x86_64 qemu-x86_64-static; do
            for folder in "${folders[@]}"; do
                [ -f "$folder/$name" ] || continue
                if has_plugins "$folder/$name"; then printf '%s\n' "$folder/$name"; return; fi
                first=${first:-$folder/$name}
            done
        done
    done
    printf '%s' "$first"
}

install_packages() {
    local missing=("$@")
    command -v apt-get >/dev/null || fail "apt-get is missing; install what corresponds to these Debian packages: ${missing[*]}"
    [ "$(id -u)" -eq 0 ] || fail "not root; run: sudo apt-get install --no-install-recommends ${missing[*]}"
    # A new system has no package lists yet.
    if ! apt-cache show "${missing[@]}" >/dev/null 2>&1; then
        say "downloading package lists"
        apt-get update -qq </dev/null
    fi
    say "installing ${missing[*]}"
    # Without recommended packages: those of qemu-user register it as the handler of foreign programs (binfmt).
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
}

# Check Rust.
if ! command -v cargo >/dev/null; then
    fail "cargo is missing; install Rust (https://rustup.rs), then run this script again"
fi
needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
present=$(rustc --version | cut -d' ' -f2)
if ! printf '%s\n' "$needed" "${present%%-*}" | sort -V -C; then
    fail "found Rust $present, expected $needed or newer; run: rustup update stable"
fi
say "Rust $present"

# Check the C compiler by compiling: it may lack the headers and start-up files of the C library.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
can_compile() {
    printf '#include <stdio.h>\nint main(void) { return puts(""); }\n' >"$scratch/a.c"
    cc -o "$scratch/a" "$scratch/a.c" 2>/dev/null
}
missing=()
can_compile || missing+=(gcc libc6-dev)
if [ -z "$(find_qemu)" ]; then
    missing+=(qemu-user)
fi
if [ ${#missing[@]} -gt 0 ]; then
    if $check_only; then
        fail "missing: ${missing[*]}"
    fi
    install_packages "${missing[@]}"
fi
can_compile || fail "cc cannot compile and link a small program; run cc by hand to see why"
say "C compiler $(command -v cc)"

emulator=$(find_qemu)
[ -x "$emulator" ] || fail "REACH_QEMU names $emulator, which is not executable; name an emulator, or unset REACH_QEMU"
if ! has_plugins "$emulator"; then
    # Since Debian 13, the packaged emulator has no plugins.
    advice="build one with scripts/build-qemu.sh (docs/qemu.md), or name one in REACH_QEMU; traces and
setup: synthetic programs work without it"
    if $check_only || [ -n "${REACH_QEMU-}" ]; then
        fail "$emulator has no plugins, which capture needs: $advice"
    fi
    say "$emulator has no plugins, which capture needs; building one with plugins (about five minutes)"
    scripts/build-qemu.sh || fail "the emulator could not be built: $advice"
    emulator=$(find_qemu)
    has_plugins "$emulator" || fail "$emulator has no plugins: $advice"
fi
version=$("$emulator" --version)
say "${version%%$'\n'*}, with plugins: $emulator"

# Without a browser, tests of pages say that they were skipped.
find_browser() {
    if [ -n "${REACH_CHROMIUM-}" ]; then printf '%s\n' "$REACH_CHROMIUM"; return; fi
    command -v chromium || command -v chromium-browser || command -v google-chrome || true
}
if $tests; then
    [ -n "$(find_browser)" ] || (install_packages chromium) || true
    browser=$(find_browser)
    if [ -n "$browser" ]; then say "browser $browser"; else say "no Chromium: tests will not open pages"; fi
fi
