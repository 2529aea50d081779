#!/bin/sh
# Makes a database for sysbench in data/, and leaves clients behind that begin when a server comes.
set -eu
export LD_LIBRARY_PATH=$PWD/root/usr/lib/x86_64-linux-gnu:$PWD/root/lib/x86_64-linux-gnu
tests=$PWD/root/usr/share/sysbench
socket=$PWD/server.sock
root/usr/bin/mariadb-install-db --no-defaults --basedir="$PWD/root/usr" --datadir="$PWD/data" --skip-test-db \
	--auth-root-authentication-method=normal --user="$(id -un)" >install.log 2>&1
cat >server.sh <<-END
	exec root/usr/sbin/mariadbd --no-defaults --basedir=$PWD/root/usr --datadir=$PWD/data --user=$(id -un) \
		--socket=$socket --skip-networking --lc-messages-dir=$PWD/root/usr/share/mysql --character-sets-dir=$PWD/root/usr/share/mysql/charsets \
		--innodb-buffer-pool-size=1G --innodb-buffer-pool-size-max=1G --innodb-flush-log-at-trx-commit=0 --innodb-log-file-size=512M \
		--pid-file=$PWD/server.pid
END
cat >load.sh <<-END
	cd $tests
	for second in \$(seq 600); do
		[ -S $socket ] && break
		sleep 1
	done
	export LUA_PATH="$tests/?.lua"
	exec $PWD/root/usr/bin/sysbench oltp_read_write --db-driver=mysql --mysql-socket=$socket --mysql-user=root \
		--mysql-db=mysql --tables=4 --table-size=50000 "\$@"
END
sh server.sh >server.log 2>&1 &
sh load.sh prepare >load.log 2>&1
kill "$(cat server.pid)"
wait
setsid sh load.sh --threads=7 --time=3600 run </dev/null >/dev/null 2>&1 &
