# Owns one private PostgreSQL server.
#
#   $1      the server's directory, already there, removed at the end
#   $2      the directory of postgres and initdb
#   $3      an empty cluster to copy, or nothing
#   $4…     what initdb makes one with, where there is none to copy
#   stdin   commands, one a line: start, stop, crash; at end of file the server
#           is stopped and the directory removed
#   stdout  "stopped" whenever the server, or the attempt to start it, has ended
#   fd 3    the directory, locked: the lock ends with the last process that
#           inherited it, which tells others that the directory is in use
#
# POSIX sh only: it also runs in dash, busybox ash and the bash 3.2 of macOS.

dir=$1
bin=$2
empty=$3
shift 3
log=$dir/log
running=$dir/running # a named pipe that exists for as long as a server process does
pid=

# Only the end of stdin ends this script. PIPE is among the ignored signals
# because nobody reads stdout any more once the parent is gone.
trap '' HUP INT QUIT TERM PIPE
exec 2>>"$log"
umask 077
cd /

create_cluster() {
	if [ -n "$empty" ] && cp -R "$empty" "$dir/data"; then
		return
	fi
	rm -rf "$dir/data"
	"$bin/initdb" "$@" -D "$dir/data" </dev/null >>"$log"
}

# Every process of the server inherits the write end of the pipe, so cat ends
# with the last of them, however it ends. No process id is trusted for that.
start() {
	reap
	mkfifo "$running"
	{
		cat "$running" >/dev/null
		rm -f "$running"
		echo stopped
	} &
	"$bin/postgres" -D "$dir/data" --config-file="$dir/postgresql.conf" \
		</dev/null >>"$log" 9>"$running" &
	pid=$!
}

# halt sends a signal until the server is gone: one sent before the server has
# installed its handlers would be lost, and repeating one is harmless. After
# about ten seconds it stops asking politely.
halt() {
	signal=$1
	attempts=0
	while [ -p "$running" ]; do
		kill -s "$signal" "$pid"
		sleep 0.02 || sleep 1 # fractions are not POSIX
		attempts=$((attempts + 1))
		[ "$attempts" -ne 400 ] || signal=QUIT
		[ "$attempts" -ne 600 ] || signal=KILL
	done 2>/dev/null
	reap
}

# reap collects a server that has ended. As long as a killed one is a zombie,
# the next takes it for another server on the same data and gives up.
reap() {
	[ -z "$pid" ] || wait "$pid"
	pid=
}

create_cluster "$@" || echo stopped
while read -r command; do
	case $command in
	start) start ;;
	stop) halt INT ;;
	crash) halt QUIT ;;
	esac
done
halt QUIT # no checkpoint: the data is removed
rm -rf "$dir"
