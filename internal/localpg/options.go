package localpg

// Environment variables a user may set.
const (
	// BinDirEnv names the directory that holds postgres and initdb.
	BinDirEnv = "TXWORK_POSTGRES_BIN"
	// DatabaseURLEnv names a server to use instead of a private one. This
	// package only mentions it in errors; its callers read it.
	DatabaseURLEnv = "TXWORK_DATABASE_URL"
)

// Options configures a private server. The zero value is a fast server for
// tests.
type Options struct {
	// Durable keeps PostgreSQL's own guarantees: what is committed survives a
	// crash of the machine. The default (false) turns fsync and full_page_writes
	// off; a commit then survives Crash, but not a power failure. It also keeps
	// the server in memory, in /dev/shm, where Linux has 8 GiB to spare and TMPDIR
	// is not set. Figures that are published and tests about crashes need true.
	Durable bool

	// Settings are added to postgresql.conf, over the defaults of this package.
	Settings map[string]string

	// BinDir holds postgres and initdb. Default: looked up, see the package
	// documentation.
	BinDir string
}
