//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

const (
	downloadVersion = embeddedpostgres.V17
	downloadLimit   = 5 * time.Minute
	repositoryURL   = "https://repo1.maven.org/maven2"
)

// download fetches PostgreSQL into a cache directory, unless an earlier call
// did, and returns the directory of its binaries.
func download(ctx context.Context, owner *owner) (string, error) {
	cache, err := cacheDir(owner)
	if err != nil {
		return "", err
	}
	return downloadFrom(ctx, repositoryURL, cache)
}

// CacheDir is where downloaded PostgreSQL binaries are kept. The user that servers run as can read it.
func CacheDir() (string, error) {
	owner, err := serverOwner()
	if err != nil {
		return "", err
	}
	return cacheDir(owner)
}

// cacheDir returns a directory for the binaries that the owner can read, which
// root's own cache is not.
func cacheDir(owner *owner) (string, error) {
	if owner != nil {
		return "/var/cache/txwork", nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "txwork"), nil
}

// downloadFrom puts the binaries in place with one rename, so that no process
// ever sees half of them, and several may do this at once.
func downloadFrom(ctx context.Context, repository, cache string) (string, error) {
	final := filepath.Join(cache, "postgresql-"+string(downloadVersion))
	bin := filepath.Join(final, "bin")
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(cache, "download-")
	if err != nil {
		return "", err
	}
	extracted := filepath.Join(work, "extracted")
	if err := fetch(ctx, repository, work, extracted); err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := makeReadable(extracted); err != nil {
		return "", err
	}
	if err := os.Rename(extracted, final); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return bin, nil
}

// fetch has embedded-postgres extract the binaries, and removes work when that
// fails. The library cannot be cancelled: when ctx ends first, it is left to
// end on its own.
func fetch(ctx context.Context, repository, work, extracted string) error {
	ctx, cancel := context.WithTimeout(ctx, downloadLimit)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		err := extract(repository, work, extracted)
		if err != nil || ctx.Err() != nil {
			_ = os.RemoveAll(work)
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// extract downloads and unpacks. embedded-postgres does so only as a part of
// starting a server, which root may not, so it is made to fail right after: a
// data directory with a version but without data is not one it initializes,
// nor one pg_ctl starts a server on. It leaves one small log file in the
// directory for temporary files.
func extract(repository, work, extracted string) error {
	data := filepath.Join(work, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	major, _, _ := strings.Cut(string(downloadVersion), ".")
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(major+"\n"), 0o600); err != nil {
		return err
	}
	err := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(downloadVersion).
		BinaryRepositoryURL(repository).
		CachePath(filepath.Join(work, "archive")).
		RuntimePath(filepath.Join(work, "runtime")).
		BinariesPath(extracted).
		DataPath(data).
		Port(0). // any: it only checks that the port is free
		Logger(io.Discard)).Start()
	for _, program := range programs {
		if _, missing := os.Stat(filepath.Join(extracted, "bin", program)); missing != nil {
			return fmt.Errorf("PostgreSQL %s from %s: %w", downloadVersion, repository, errors.Join(err, missing))
		}
	}
	return nil
}

// makeReadable undoes a strict umask: the server may run as another user.
func makeReadable(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if info.IsDir() || mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode)
	})
}
