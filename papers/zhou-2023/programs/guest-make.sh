#!/bin/sh
# Makes a small AArch64 system whose first process works with tools of busybox.
set -eu
mkdir -p system/bin system/proc
cp root/bin/busybox system/bin/
cat >system/init <<-'END'
	#!/bin/busybox sh
	/bin/busybox mount -t proc proc /proc
	export PATH=/bin
	/bin/busybox --install -s /bin
	for file in $(seq 400); do
		for line in $(seq 60); do echo "int f$line(int x) { return x * $line + $file; } /* $line */"; done >a.c
		awk '{ n[$2] += length($0) } END { for (f in n) print n[f], f }' a.c | sort -n >b
		sed 's/int/long/g; s/return \(.*\);/{ return \1; }/' a.c | tr a-z A-Z | gzip -c >c.gz
		gunzip -c c.gz | sha256sum
		grep -c 'x \* [0-9]*7' a.c
		expr $file \* 37 % 101
	done
	poweroff -f
END
chmod +x system/init
root=$PWD/root
(cd system && find . | "$root/bin/cpio" --quiet -o -H newc >../system.cpio)
gzip -f system.cpio
cp root/boot/vmlinuz-* vmlinuz
