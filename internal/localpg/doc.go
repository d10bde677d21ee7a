// Package localpg runs a private PostgreSQL server for the demo, the
// benchmarks and the tests.
//
// [Start] creates a cluster in a fresh directory, starts a server that listens
// on a Unix socket in that directory only, and returns once it answers.
// Nothing has to be configured, nothing is shared with other servers on the
// machine, and any number of servers may run at once.
//
// # Finding PostgreSQL
//
// The binaries come from the first of these that has them: Options.BinDir, the
// directory in [BinDirEnv], the places where Debian, Red Hat, Alpine, Homebrew,
// MacPorts and Postgres.app install them (newest version first, PATH after
// Debian's directory), and last a download into the user's cache directory.
// It comes from Maven Central, through the proxy that HTTPS_PROXY names, and once: later calls need no network.
// Where none works, the error names what to install. Start does not look at
// [DatabaseURLEnv]; callers that accept a server of the user's do.
//
// # What is left behind
//
// Nothing, also when the process is killed with SIGKILL. A supervisor, a small
// shell script in a session of its own, owns the server: it holds the read end
// of a pipe whose only write end is in the process that called Start. When the
// pipe closes, because of [Server.Stop] or because that process is gone, it
// stops the server and removes the directory. If the supervisor itself is
// killed, Stop does its work, and failing that the next Start removes the
// directory once no process of that server lives. What stays is in the user's
// cache directory (root's is /var/cache/txwork): the downloaded binaries, if any,
// and an empty cluster, of which every server gets a copy.
//
// # Privileges
//
// PostgreSQL refuses to run as root, so Start called by root runs the server
// and its supervisor as the user postgres, or nobody where there is none. The
// cluster trusts every local connection; the directory is open to its owner
// only.
//
// # Platforms
//
// Linux, macOS and the BSDs. Elsewhere Start returns an error.
package localpg
