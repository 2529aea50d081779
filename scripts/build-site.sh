#!/usr/bin/env bash
# Builds the documentation's site into target/site/html, with MkDocs in a virtual environment of its own. `$1` is the reach command,
# which writes the pages of reference. With `optional` behind it, nothing is built where pip cannot install MkDocs.
set -euo pipefail
cd "$(dirname "$0")/.."

reach=${1:-target/release/reach}
tools=$PWD/target/python/site
if ! "$tools/bin/mkdocs" --version >/dev/null 2>&1; then
    python3 -m venv "$tools"
    if ! "$tools/bin/pip" install -q --disable-pip-version-check -r docs/requirements.txt; then
        echo "the site was not built: pip cannot install what docs/requirements.txt names" >&2
        [ "${2-}" = optional ] && exit 0 || exit 1
    fi
fi
source=target/site/source
rm -rf "$source"
mkdir -p "$source/reference"
# Pages keep their places, so that the links between them hold.
cp --parents ./*.md docs/*.{md,svg} papers/*/README.md LICENSE-MIT LICENSE-APACHE python/examples/*.{py,ipynb} "$source"
"$reach" generate reference "$source/reference"
# Its authors announce a successor, which reads the same file.
NO_MKDOCS_2_WARNING=1 "$tools/bin/mkdocs" build -q
echo "target/site/html/index.html"
