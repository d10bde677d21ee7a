//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// programs are the programs that a directory of binaries must contain. psql and pg_ctl are not needed.
var programs = []string{"postgres", "initdb"}

// finder looks for PostgreSQL's binaries. Its fields are what differs between
// machines.
type finder struct {
	owner    *owner
	env      string   // the value of BinDirEnv
	packaged []string // glob patterns that come before PATH
	path     string   // where PATH has postgres, if it does
	usual    []string // glob patterns that come after PATH
	download func(context.Context, *owner) (string, error)
}

func findBinaries(ctx context.Context, dir string, owner *owner) (string, error) {
	f := finder{
		owner:    owner,
		env:      os.Getenv(BinDirEnv),
		packaged: []string{"/usr/lib/postgresql/*/bin"}, // Debian and Ubuntu
		path:     pathDir(),
		usual: []string{
			"/opt/homebrew/opt/postgresql@*/bin",              // Homebrew on Apple silicon
			"/usr/local/opt/postgresql@*/bin",                 // Homebrew on Intel
			"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin", // Homebrew on Linux
			"/Applications/Postgres.app/Contents/Versions/*/bin",
			"/opt/local/lib/postgresql*/bin", // MacPorts
			"/usr/pgsql-*/bin",               // PGDG packages for Red Hat and SUSE
			"/usr/libexec/postgresql*",       // Alpine
			"/usr/lib/postgresql*/bin",       // SUSE
			"/usr/local/pgsql/bin",           // built from source
		},
		download: download,
	}
	return f.find(ctx, dir)
}

func (f finder) find(ctx context.Context, dir string) (string, error) {
	if dir != "" {
		return dir, f.check(dir)
	}
	if f.env != "" {
		if err := f.check(f.env); err != nil {
			return "", fmt.Errorf("%w; %s names that directory", err, BinDirEnv)
		}
		return f.env, nil
	}
	for _, dir := range f.candidates() {
		if f.check(dir) == nil {
			return dir, nil
		}
	}
	dir, err := f.download(ctx, f.owner)
	if err == nil {
		err = f.check(dir)
	}
	if err != nil {
		return "", notFound(err)
	}
	return dir, nil
}

// notFound is the only error that a user without PostgreSQL sees.
func notFound(cause error) error {
	return fmt.Errorf(`localpg: no PostgreSQL found, and downloading it failed (%w). Do one of these:
  - install it: "apt install postgresql", "brew install postgresql@17" or "dnf install postgresql-server"
    (if it is installed in an unusual place, set %s to the directory that holds postgres and initdb)
  - set %s to the URL of a PostgreSQL server`, cause, BinDirEnv, DatabaseURLEnv)
}

func (f finder) candidates() []string {
	dirs := newestFirst(f.packaged)
	if f.path != "" {
		dirs = append(dirs, f.path)
	}
	return append(dirs, newestFirst(f.usual)...)
}

// check reports why dir cannot be used.
func (f finder) check(dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("localpg: the directory of PostgreSQL's binaries must be an absolute path, not %q", dir)
	}
	for _, program := range programs {
		if _, err := exec.LookPath(filepath.Join(dir, program)); err != nil {
			return fmt.Errorf("localpg: no PostgreSQL: %w", err)
		}
	}
	if !f.owner.reaches(dir) {
		return fmt.Errorf("localpg: PostgreSQL does not run as root, and user %s may not enter %s: "+
			"put PostgreSQL where every user can read it", f.owner.name, dir)
	}
	return nil
}

// pathDir returns the directory PATH finds postgres in, free of symbolic links:
// a link to postgres need not have initdb beside it.
func pathDir() string {
	file, err := exec.LookPath("postgres")
	if err != nil {
		return ""
	}
	file, err = filepath.EvalSymlinks(file)
	if err == nil {
		file, err = filepath.Abs(file)
	}
	if err != nil {
		return ""
	}
	return filepath.Dir(file)
}

// newestFirst returns the directories that match, those of one pattern by
// falling version.
func newestFirst(patterns []string) []string {
	var dirs []string
	for _, pattern := range patterns {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			panic(errors.Join(errors.New(pattern), err)) // one of our own patterns is malformed
		}
		slices.SortStableFunc(matches, func(a, b string) int { return version(b) - version(a) })
		dirs = append(dirs, matches...)
	}
	return dirs
}

var lastNumber = regexp.MustCompile(`(\d+)(\.\d+)*[^\d]*$`)

// version returns the major version in a path such as
// /usr/lib/postgresql/17/bin, 0 if there is none.
func version(dir string) int {
	match := lastNumber.FindStringSubmatch(dir)
	if match == nil {
		return 0
	}
	major, _ := strconv.Atoi(match[1]) // they are digits; too many of them count as none
	return major
}
