#!/usr/bin/env bash
# Installs the programs that the papers' experiments capture: the packages that their files name under `needs`
# (docs/papers.md), from the sources that apt is set up with. An experiment whose program is missing is reported as not
# measurable; nothing else needs these programs.
#
#     scripts/paper-programs.sh            install what is missing
#     scripts/paper-programs.sh --check    only list what is missing; exit status 1 if anything is
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1-}" in
    '' | --check) ;;
    *) echo "usage: scripts/paper-programs.sh [--check]" >&2; exit 2 ;;
esac

fail() { printf 'paper-programs: %s\n' "$*" >&2; exit 1; }

# `needs` maps a command or an absolute path to the package that provides it.
missing=()
while IFS=' ' read -r program package; do
    case $program in
        /*) [ -e "$program" ] && continue ;;
        *) command -v "$program" >/dev/null && continue ;;
    esac
    missing+=("$package")
done < <(sed -n 's/^needs = {\(.*\)}$/\1/p' papers/*/*.toml validation/*/*.toml | tr ',' '\n' | tr -d ' "' | tr '=' ' ' | sort -u)

if [ ${#missing[@]} -eq 0 ]; then exit 0; fi
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
if [ "${1-}" = --check ]; then fail "missing: ${missing[*]}"; fi
command -v apt-get >/dev/null || fail "apt-get is missing; install what corresponds to these Debian packages: ${missing[*]}"
[ "$(id -u)" -eq 0 ] || fail "not root; run: sudo apt-get install --no-install-recommends ${missing[*]}"
# A new system has no package lists yet.
apt-cache show "${missing[@]}" >/dev/null 2>&1 || apt-get update -qq </dev/null
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
