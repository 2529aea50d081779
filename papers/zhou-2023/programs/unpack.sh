#!/bin/sh
# sh unpack.sh ARCHITECTURE PACKAGE...
# Unpacks packages of Debian, and what they need that is not installed, into root/: nothing is installed. What was
# downloaded once is kept in the cache folder.
set -eu
architecture=$1
shift
cache=${XDG_CACHE_HOME:-$HOME/.cache}/reach/packages/$architecture
mkdir -p "$cache" root
if [ "$architecture" = "$(dpkg --print-architecture)" ]; then
	needs=$(apt-get install --simulate --no-install-recommends "$@" | sed -n 's/^Inst \([^ ]*\) .*/\1/p')
else
	# Another architecture has lists of its own; of what these packages need only the kernel is taken.
	mkdir -p "$cache/state/lists/partial" "$cache/apt/archives/partial"
	cat >"$cache/apt.conf" <<-END
		Dir::State "$cache/state";
		Dir::Cache "$cache/apt";
		Dir::State::status "/dev/null";
		APT::Architecture "$architecture";
		APT::Architectures { "$architecture"; };
	END
	export APT_CONFIG="$cache/apt.conf"
	ls "$cache/state/lists" | grep -q Packages || apt-get -qq update
	needs=$(apt-cache depends "$@" | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p')
fi
for name in $(printf '%s\n' "$@" $needs | sort -u); do
	case $name in
	# These replace what every system has.
	perl | perl-* | libperl* | libc6 | libc-bin | libssl3 | openssl) continue ;;
	esac
	if ! ls "$cache/$name"_*.deb >/dev/null 2>&1; then
		(cd "$cache" && apt-get -qq download "$name" 2>/dev/null)
	fi
	dpkg-deb --extract "$(ls "$cache/$name"_*.deb | tail -n 1)" root
done
