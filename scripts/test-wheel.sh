#!/usr/bin/env bash
# Installs the wheel of target/wheels in a fresh virtual environment, and runs its tests away from the checkout's sources.
set -euo pipefail
cd "$(dirname "$0")/.."

room=target/python/test
rm -rf "$room"
python3 -m venv "$room"
"$room/bin/pip" install -q --disable-pip-version-check pytest mypy numpy polars pandas pyarrow matplotlib tqdm target/wheels/*.whl
checkout=$PWD
cd "$room"
# The tests hold rows of the package against those of its own command.
exec bin/python -m pytest -q -p no:cacheprovider --rootdir "$checkout/python/tests" "$checkout/python/tests" "$@"
