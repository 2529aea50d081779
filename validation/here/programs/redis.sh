#!/bin/sh
# A redis server with its client, on a socket of this folder.
redis-server --port 0 --unixsocket ./socket --save '' --appendonly no >/dev/null &
while ! redis-cli -s ./socket ping >/dev/null 2>&1; do sleep 0.05; done
redis-benchmark -s ./socket -t set,get -n 20000 -r 100000 -P 16 -d 100 -q
redis-cli -s ./socket shutdown nosave
wait
