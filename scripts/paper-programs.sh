#!/usr/bin/env bash
# Installs the programs that papers' experiments capture and the machine lacks, by the packages that their files name
# under `needs` (docs/papers.md). Experiments that lack one say so and are not measured; nothing else needs them.
#
#     scripts/paper-programs.sh            install what is missing
#     scripts/paper-programs.sh --check    only say what is missing; exit status 1 when something is
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1-}" in
    '' | --check) ;;
    *) echo "usage: scripts/paper-programs.sh [--check]" >&2; exit 2 ;;
esac

missing=()
while IFS=' ' read -r what package; do
    case $what in
        /*) [ -e "$what" ] && continue ;;
        *) command -v "$what" >/dev/null && continue ;;
    esac
    missing+=("$package")
done < <(sed -n 's/^needs = {\(.*\)}$/\1/p' papers/*/*.toml | tr ',' '\n' | tr -d ' "' | tr '=' ' ' | sort -u)

if [ ${#missing[@]} -eq 0 ]; then exit 0; fi
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
if [ "${1-}" = --check ]; then echo "paper-programs: missing: ${missing[*]}" >&2; exit 1; fi
if ! command -v apt-get >/dev/null; then
    echo "paper-programs: this is no Debian; install what corresponds to: ${missing[*]}" >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "paper-programs: not root; run: sudo apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
fi
# A fresh machine has no package lists yet.
apt-cache show "${missing[@]}" >/dev/null 2>&1 || apt-get update -qq </dev/null
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
