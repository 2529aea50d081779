#!/usr/bin/env bash
# Tests the Python package in a fresh virtual environment, away from the checkout's sources. `wheel`: installs the wheel of
# target/wheels. `built`: puts together what cargo has built for its own tests, because a wheel takes minutes to build.
set -euo pipefail
cd "$(dirname "$0")/.."

room=$PWD/target/python/test
rm -rf "$room"
python3 -m venv "$room"
if ! "$room/bin/pip" install -q --disable-pip-version-check -r python/tests/requirements.txt; then
    echo "the Python package was not tested: pip cannot install what its tests need" >&2
    # Not a failure of what was built.
    [ "$1" = built ] && exit 0 || exit 1
fi
case $1 in
wheel)
    "$room/bin/pip" install -q --disable-pip-version-check --no-deps target/wheels/*.whl
    ;;
built)
    site=$("$room/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    rm -rf python/reach/_bin
    cp -r python/reach "$site"
    cp target/debug/lib_reach.so "$site/reach/_reach.abi3.so"
    mkdir "$site/reach/_bin"
    cp target/debug/reach target/debug/libreach_plugin.so target/debug/libreach_preload.so "$site/reach/_bin"
    printf '#!%s\nfrom reach._command import main\n\nmain()\n' "$room/bin/python" >"$room/bin/reach"
    chmod 755 "$room/bin/reach"
    set -- "$@" -m "not slow"
    ;;
*)
    echo "usage: test-python.sh wheel|built [pytest's arguments]" >&2
    exit 2
    ;;
esac
shift
checkout=$PWD
cd "$room"
# The tests hold rows of the package against those of its own command.
exec bin/python -m pytest -q -p no:cacheprovider --rootdir "$checkout/python/tests" "$checkout/python/tests" "$@"
