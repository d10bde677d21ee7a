//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localpg

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/spawn"
)

// install writes no-op programs in place of PostgreSQL's.
func install(t *testing.T, elem ...string) string {
	t.Helper()
	dir := filepath.Join(elem...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, program := range programs {
		if err := spawn.WriteExecutable(filepath.Join(dir, program), []byte("#!/bin/sh\n")); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func offline(context.Context, *owner) (string, error) { return "", errors.New("no network") }

func TestFindOrder(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	given := install(t, root, "given")
	named := install(t, root, "named")
	install(t, root, "packaged", "9.6", "bin")
	newest := install(t, root, "packaged", "17", "bin")
	install(t, root, "packaged", "15", "bin")
	onPath := install(t, root, "path")
	usual := install(t, root, "usual", "postgresql@16", "bin")
	downloaded := install(t, root, "downloaded")

	f := finder{
		env:      named,
		packaged: []string{filepath.Join(root, "packaged", "*", "bin")},
		path:     onPath,
		usual:    []string{filepath.Join(root, "usual", "postgresql@*", "bin")},
		download: func(context.Context, *owner) (string, error) { return downloaded, nil },
	}
	expect := func(given, want string) {
		t.Helper()
		if got, err := f.find(t.Context(), given); got != want || err != nil {
			t.Errorf("found %s, %v; want %s", got, err, want)
		}
	}
	expect(given, given)
	expect("", named)
	f.env = ""
	expect("", newest)
	f.packaged = nil
	expect("", onPath)
	f.path = ""
	expect("", usual)
	f.usual = nil
	expect("", downloaded)
}

func TestNothingFound(t *testing.T) {
	t.Parallel()
	f := finder{path: t.TempDir(), download: offline}
	_, err := f.find(t.Context(), "")
	if err == nil {
		t.Fatal("found PostgreSQL in an empty directory")
	}
	for _, want := range []string{
		"no network", "apt install postgresql", "brew install", "dnf install", BinDirEnv, DatabaseURLEnv,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %q:\n%v", want, err)
		}
	}
}

// A directory that the user has named is not silently replaced by another.
func TestNamedDirectoryWithoutPostgreSQL(t *testing.T) {
	t.Parallel()
	elsewhere := install(t, t.TempDir())
	f := finder{env: t.TempDir(), path: elsewhere, download: offline}
	if dir, err := f.find(t.Context(), ""); err == nil || !strings.Contains(err.Error(), BinDirEnv) {
		t.Errorf("found %s, %v; want an error that names %s", dir, err, BinDirEnv)
	}
	if dir, err := f.find(t.Context(), "relative/bin"); err == nil {
		t.Errorf("accepted a relative directory as %s", dir)
	}
}

func TestBinariesTheOwnerCannotReach(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir := install(t, home, "bin")
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	f := finder{owner: &owner{name: "stranger", uid: nobodyID - 1, gid: nobodyID - 1}, download: offline}
	if err := f.check(dir); err == nil || !strings.Contains(err.Error(), "stranger") {
		t.Errorf("check returned %v, want an error that names the user", err)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]int{
		"/usr/lib/postgresql/17/bin":                              17,
		"/usr/lib/postgresql/9.6/bin":                             9,
		"/opt/homebrew/opt/postgresql@16/bin":                     16,
		"/usr/pgsql-18/bin":                                       18,
		"/usr/libexec/postgresql15":                               15,
		"/Applications/Postgres.app/Contents/Versions/latest/bin": 0,
		"/home/user42/postgresql/14/bin":                          14,
	} {
		if got := version(dir); got != want {
			t.Errorf("version(%s) = %d, want %d", dir, got, want)
		}
	}
}
