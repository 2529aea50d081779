#!/usr/bin/env bash
# Installs what Reach needs and the machine lacks: a C compiler and linker, and a QEMU that can load plugins. Looks
# first, so it needs neither network nor rights when nothing is missing. May be run any number of times.
#
#     scripts/setup.sh            install what is missing
#     scripts/setup.sh --check    only say what is missing; exit status 1 when something is
set -euo pipefail
cd "$(dirname "$0")/.."

check_only=false
case "${1-}" in
    '') ;;
    --check) check_only=true ;;
    *) echo "usage: scripts/setup.sh [--check]" >&2; exit 2 ;;
esac

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

has_plugins() {
    local help
    help=$("$1" -h 2>/dev/null) || true
    [[ $help == *$'\n-plugin '* ]]
}

# The emulator that live capture will take, by the rules of `reach`: $REACH_QEMU when it is set, else the first with
# plugins of the cache folder and PATH. Where none has any: the first of all, or nothing.
qemu() {
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
    command -v apt-get >/dev/null || fail "this is no Debian; install what corresponds to: ${missing[*]}"
    [ "$(id -u)" -eq 0 ] || fail "not root; run: sudo apt-get install --no-install-recommends ${missing[*]}"
    # A fresh machine has no package lists yet.
    if ! apt-cache show "${missing[@]}" >/dev/null 2>&1; then
        say "fetching package lists"
        apt-get update -qq </dev/null
    fi
    say "installing ${missing[*]}"
    # Without recommended packages: those of qemu-user would register themselves as handlers of foreign programs.
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
}

# Rust.
if ! command -v cargo >/dev/null; then
    fail "cargo is missing; install Rust (https://rustup.rs), then try again"
fi
needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
present=$(rustc --version | cut -d' ' -f2)
if ! printf '%s\n' "$needed" "${present%%-*}" | sort -V -C; then
    fail "Rust $present is older than $needed; run: rustup update stable"
fi
say "Rust $present"

# Debian packages. A compiler may be there without the headers and start-up files of the C library.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
can_compile() {
    printf '#include <stdio.h>\nint main(void) { return puts(""); }\n' >"$scratch/a.c"
    cc -o "$scratch/a" "$scratch/a.c" 2>/dev/null
}
missing=()
can_compile || missing+=(gcc libc6-dev)
if [ -z "$(qemu)" ]; then
    missing+=(qemu-user)
fi
if [ ${#missing[@]} -gt 0 ]; then
    if $check_only; then
        fail "missing: ${missing[*]}"
    fi
    install_packages "${missing[@]}"
fi
can_compile || fail "cc cannot compile and link a small program; run it by hand to see why"
say "C compiler $(command -v cc)"

emulator=$(qemu)
[ -x "$emulator" ] || fail "REACH_QEMU names $emulator, which is no program; name an emulator, or unset it"
if ! has_plugins "$emulator"; then
    # Since Debian 13, the packaged emulator is built without them.
    advice="build one with scripts/build-qemu.sh (docs/qemu.md), or name one in REACH_QEMU; recorded traces and
setup: synthetic programs work without"
    if $check_only || [ -n "${REACH_QEMU-}" ]; then
        fail "$emulator has no plugins, which capturing a program needs: $advice"
    fi
    say "$emulator has no plugins, which capturing a program needs; building one that has (some minutes)"
    scripts/build-qemu.sh || fail "no emulator with plugins: $advice"
    emulator=$(qemu)
    has_plugins "$emulator" || fail "$emulator has no plugins: $advice"
fi
version=$("$emulator" --version)
say "${version%%$'\n'*}, with plugins: $emulator"
