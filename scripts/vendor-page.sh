#!/usr/bin/env bash
# Fetches the libraries that draw the figures of `--html` into crates/page/assets/vendor: Observable Plot, and D3, on which it is
# built. Both go into every page as they are published. Run it to verify the files, or after changing a version below; then
# the checksums here and docs/pictures.md change with it.
#
#     scripts/vendor-page.sh            fetch, verify and replace
#     scripts/vendor-page.sh --check    only compare the files with their checksums; needs no network
set -euo pipefail
cd "$(dirname "$0")/../crates/page/assets/vendor"

registry=https://registry.npmjs.org
# The files that are inlined: package, version, file in it, SHA-256 of the file.
files="
d3               7.9.0   dist/d3.min.js       f2094bbf6141b359722c4fe454eb6c4b0f0e42cc10cc7af921fc158fceb86539
@observablehq/plot 0.6.17 dist/plot.umd.min.js 4358086467740777dd788d6b27a95cebdbaefdd50c730a3060117073bd7134cb
"
# All packages whose code is in these files; their licences go into every page.
licences="
d3 7.9.0
@observablehq/plot 0.6.17
d3-ease 3.0.1
d3-scale-chromatic 3.1.0
delaunator 5.0.1
internmap 2.0.3
robust-predicates 3.0.2
interval-tree-1d 1.0.4
binary-search-bounds 2.0.5
isoformat 0.2.1
"
licences_sum=2ef84a02319312dcf3ee27b7bd00a2d1e7e6dbe476367d6330f4f2ce1cca24fe

check() {
    { while read -r _ _ file sum; do [ -z "$file" ] || printf '%s  %s\n' "$sum" "$(basename "$file")"; done <<<"$files"
      printf '%s  licences.txt\n' "$licences_sum"; } | sha256sum --check --strict
}

case "${1-}" in
    '') ;;
    --check) check; exit ;;
    *) echo "usage: scripts/vendor-page.sh [--check]" >&2; exit 2 ;;
esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Unpacks a package into the scratch folder, and prints where.
unpack() {
    local package=$1 version=$2 folder="$scratch/$1-$2"
    if [ ! -d "$folder" ]; then
        mkdir -p "$folder"
        curl -sSf "$registry/$package/-/${package##*/}-$version.tgz" | tar -xz -C "$folder" --strip-components=1
    fi
    printf '%s\n' "$folder"
}

while read -r package version file _; do
    [ -n "$package" ] || continue
    cp "$(unpack "$package" "$version")/$file" .
done <<<"$files"
while read -r package version; do
    [ -n "$package" ] || continue
    folder=$(unpack "$package" "$version")
    printf '%s %s\n\n' "$package" "$version"
    cat "$folder"/LICEN[SC]E*
    printf '\n'
done <<<"$licences" >licences.txt
check
