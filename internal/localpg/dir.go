//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localpg

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	dirPrefix = "txwork-pg-"

	// The shortest of the platforms' limits on the path of a socket is 103 bytes
	// (macOS and the BSDs). The name below allows for the digits of MkdirTemp.
	maxSocketPath  = 103
	longestDirName = dirPrefix + "4294967295"
	socketName     = ".s.PGSQL.5432"
)

// baseDir returns the first directory that can hold a server: memory, if the data need not be durable, the directory
// for temporary files, and /tmp.
func baseDir(owner *owner, durable bool) string {
	for _, base := range baseDirs(durable) {
		if holdsServer(base, owner) {
			return base
		}
	}
	return "/tmp"
}

// baseDirs are the directories that may hold servers. If TMPDIR is set, it is the only one.
func baseDirs(durable bool) (dirs []string) {
	if !durable && os.Getenv("TMPDIR") == "" {
		dirs = inMemory()
	}
	return append(dirs, os.TempDir())
}

// holdsServer reports whether base is short enough for a socket path, and whether the owner can remove a directory from
// it.
func holdsServer(base string, owner *owner) bool {
	socket := filepath.Join(base, longestDirName, socketName)
	return len(socket) <= maxSocketPath && filepath.IsAbs(base) && owner.reaches(base) && owner.writes(base)
}

// createDir makes a server's directory and locks it. The lock marks it as in
// use: it is passed on to the server's processes and ends with the last.
func createDir(base string, owner *owner) (string, *os.File, error) {
	for {
		dir, err := os.MkdirTemp(base, dirPrefix)
		if err != nil {
			return "", nil, fmt.Errorf("localpg: directory for the server: %w", err)
		}
		lock, err := lockDir(dir)
		if errors.Is(err, errInUse) || errors.Is(err, os.ErrNotExist) {
			continue // a sweep of another process removed it before it was locked
		}
		if err == nil {
			err = owner.own(dir)
		}
		if err != nil {
			return "", nil, errors.Join(fmt.Errorf("localpg: directory for the server: %w", err), os.RemoveAll(dir))
		}
		return dir, lock, nil
	}
}

var errInUse = errors.New("in use")

// lockDir locks dir and makes sure that what is locked is still at that path.
// It fails with errInUse when a process of a server, or a sweep, holds the lock.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := tryLock(f, dir); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func tryLock(f *os.File, dir string) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errInUse
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	locked, err := f.Stat()
	if err != nil {
		return err
	}
	current, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !os.SameFile(locked, current) {
		return errInUse
	}
	return nil
}

// sweep removes the directories of servers that are gone without having been
// able to remove them. It is best effort: what cannot be opened belongs to
// another user.
func sweep(base string) {
	dirs, err := filepath.Glob(filepath.Join(base, dirPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		if lock, err := lockDir(dir); err == nil {
			_ = os.RemoveAll(dir)
			_ = lock.Close()
		}
	}
}

// finish completes a stop after the supervisor has ended. There is nothing to do unless the supervisor was killed.
func finish(dir string) error {
	deadline := time.Now().Add(haltLimit)
	for {
		lock, err := lockDir(dir)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil {
			defer lock.Close()
			return os.RemoveAll(dir)
		}
		if !errors.Is(err, errInUse) || time.Now().After(deadline) {
			return fmt.Errorf("localpg: the server in %s does not stop: %w; end it and remove the directory", dir, err)
		}
		endServer(dir)
		time.Sleep(10 * time.Millisecond)
	}
}

// endServer signals the server that runs in dir, which must be locked.
func endServer(dir string) {
	file, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		return
	}
	line, _, _ := bytes.Cut(file, []byte("\n"))
	if pid, err := strconv.Atoi(string(line)); err == nil && pid > 1 {
		_ = syscall.Kill(pid, syscall.SIGQUIT)
	}
}
