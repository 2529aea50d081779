#!/usr/bin/env bash
# Prints the mirrors of this system's release in apt's configuration, one URI a line, in apt's order. Exit status 1 if
# there is none. Reads configuration only: it needs neither network nor root, nor package lists.
#
#     scripts/debian-mirror.sh
set -euo pipefail

if [ $# -gt 0 ]; then echo "usage: scripts/debian-mirror.sh" >&2; exit 2; fi
command -v apt-get >/dev/null || exit 1
# Each line of apt-get begins with a quoted URI. A mirror of the release has MIRROR/dists/CODENAME/InRelease; other files,
# and suites for security and updates, do not match. `mirror+file:` and proxies are kept as they are configured.
codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME-}")
mirrors=$(apt-get update --print-uris 2>/dev/null </dev/null |
    sed -n "s|^'\(.*[^/]\)/*/dists/${codename:?}/InRelease'.*|\1|p" | awk '!seen[$0]++')
[ -n "$mirrors" ] || exit 1
printf '%s\n' "$mirrors"
