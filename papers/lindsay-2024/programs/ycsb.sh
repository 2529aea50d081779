#!/bin/sh
# Compiles the client of memcached and leaves it behind: it begins when there is a server on ./socket.
#     ycsb.sh RECORDS REQUESTS [THREADS]
set -eu
cc -O2 -pthread -o ycsb ycsb.c
rm -f socket
setsid ./ycsb "$PWD/socket" "$@" </dev/null >ycsb.log 2>&1 &
