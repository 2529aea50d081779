#!/bin/sh
# Makes a database for pgbench in data/, and leaves clients behind that begin when a server comes. PostgreSQL does not run for
# root, who is somebody else here.
set -eu
bin=$PWD/root/usr/lib/postgresql/15/bin
export LD_LIBRARY_PATH=$PWD/root/usr/lib/x86_64-linux-gnu:$PWD/root/lib/x86_64-linux-gnu
cat >make.sh <<-END
	set -eu
	$bin/initdb -D data -A trust -U reach --no-sync >initdb.log
	printf '%s\n' "shared_buffers = 512MB" "listen_addresses = ''" "unix_socket_directories = '$PWD'" \
		"fsync = off" "full_page_writes = off" "max_wal_size = 4GB" "jit = off" "autovacuum = off" >>data/postgresql.conf
	$bin/pg_ctl -D data -l make.log -w start >/dev/null
	$bin/pgbench -h "$PWD" -U reach -i -q -s 30 postgres >pgbench.log 2>&1
	$bin/pg_ctl -D data -w -m fast stop >/dev/null
END
if [ "$(id -u)" = 0 ]; then
	unshare -U --map-user=1000 --map-group=1000 sh make.sh
	chown 1000 data
else
	sh make.sh
fi
gcc -shared -fPIC -O1 -o owner.so owner.c
cat >clients.sh <<-END
	for second in \$(seq 600); do
		[ -d data ] || exit
		[ -S .s.PGSQL.5432 ] && $bin/pg_isready -q -t 30 -h "$PWD" -U reach && break
		sleep 1
	done
	$bin/pgbench -h "$PWD" -U reach -n -c 6 -j 1 -T 3600 postgres >/dev/null 2>&1
END
setsid sh clients.sh </dev/null >/dev/null 2>&1 &
