//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localpg

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// The binaries are those that the Java project embedded-postgres-binaries of zonky.io publishes.
const (
	downloadVersion = "17.5.0"
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
func downloadFrom(ctx context.Context, repository, cache string) (_ string, err error) {
	final := filepath.Join(cache, "postgresql-"+downloadVersion)
	bin := filepath.Join(final, "bin")
	isWhole := func(dir string) bool { return finder{}.check(filepath.Join(dir, "bin")) == nil }
	if isWhole(final) {
		return bin, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(cache, "download-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	extracted := filepath.Join(work, "extracted")
	if err := fetch(ctx, repository, extracted); err != nil {
		return "", fmt.Errorf("PostgreSQL %s from %s: %w", downloadVersion, repository, err)
	}
	err = os.Rename(extracted, final)
	if errors.Is(err, fs.ErrExist) && isWhole(final) { // another process was faster
		return bin, nil
	}
	if errors.Is(err, fs.ErrExist) {
		if err = os.Rename(final, filepath.Join(work, "incomplete")); err == nil {
			err = os.Rename(extracted, final)
		}
	}
	return bin, err
}

// fetch downloads the archive for this machine and unpacks it into a new directory.
func fetch(ctx context.Context, repository, into string) error {
	ctx, cancel := context.WithTimeout(ctx, downloadLimit)
	defer cancel()
	name := "embedded-postgres-binaries-" + platform()
	address := fmt.Sprintf("%s/io/zonky/test/postgres/%s/%s/%s-%s.jar", repository, name, downloadVersion, name,
		downloadVersion)
	jar, err := get(ctx, address)
	if err != nil {
		return err
	}
	sum, err := get(ctx, address+".sha256")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // not every repository has sums
		return err
	}
	if err == nil && strings.TrimSpace(string(sum)) != fmt.Sprintf("%x", sha256.Sum256(jar)) {
		return fmt.Errorf("%s does not have the checksum that its repository names", address)
	}
	if err := unpack(ctx, jar, into); err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	if err := (finder{}).check(filepath.Join(into, "bin")); err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	return makeReadable(into)
}

// platform names this machine as the archives do.
func platform() string {
	arch := runtime.GOARCH
	switch arch {
	case "arm64":
		arch = "arm64v8"
	case "arm":
		arch = "arm32v6" // runs on later versions, too
	}
	if _, err := os.Stat("/etc/alpine-release"); err == nil {
		arch += "-alpine"
	}
	return runtime.GOOS + "-" + arch
}

// get returns the content of an address. The error is fs.ErrNotExist if the server has no such file.
func get(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		return io.ReadAll(response.Body)
	case http.StatusNotFound:
		return nil, fmt.Errorf("%s: %w", address, fs.ErrNotExist)
	}
	return nil, fmt.Errorf("%s: %s", address, response.Status)
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
