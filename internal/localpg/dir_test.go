//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localpg

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// A directory that is being created must not be swept, and the one that createDir returns must exist, whatever other
// processes sweep meanwhile.
func TestSweepAgainstCreate(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	until := time.Now().Add(300 * time.Millisecond)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for time.Now().Before(until) {
				sweep(base)
			}
		})
		wg.Go(func() {
			for time.Now().Before(until) {
				if err := createAndUse(base); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	// A process that another test is starting holds a copy of all open files, including locks, until it executes its
	// own program. A sweep then leaves such a directory to the next one.
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		sweep(base)
		left := list(t, base)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not swept: %v", left)
		}
	}
}

func createAndUse(base string) error {
	dir, lock, err := createDir(base, nil)
	if err != nil {
		return err
	}
	defer lock.Close()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	for range 100 { // takes a while
		if _, err = os.Stat(file); err != nil {
			return err
		}
	}
	return nil
}

func TestSweepLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	target := t.TempDir()
	if err := os.WriteFile(filepath.Join(target, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := errors.Join(
		os.Symlink(target, filepath.Join(base, dirPrefix+"link")),
		os.WriteFile(filepath.Join(base, dirPrefix+"file"), nil, 0o600),
		os.Mkdir(filepath.Join(base, "other"), 0o700),
		os.Mkdir(filepath.Join(base, dirPrefix+"stale"), 0o700),
	)
	if err != nil {
		t.Fatal(err)
	}
	sweep(base)
	if left := list(t, base); len(left) != 3 {
		t.Errorf("left %v, want the link, the file and the other directory", left)
	}
	if len(list(t, target)) != 1 {
		t.Error("swept through a symbolic link")
	}
}

func TestOnlyWhatNeedNotBeDurableIsInMemory(t *testing.T) {
	t.Setenv("TMPDIR", "")
	disk := os.TempDir()
	if dirs := baseDirs(true); !slices.Equal(dirs, []string{disk}) {
		t.Errorf("durable servers are in one of %v, want %s", dirs, disk)
	}
	if dirs, want := baseDirs(false), append(inMemory(), disk); !slices.Equal(dirs, want) {
		t.Errorf("others are in one of %v, want %v", dirs, want)
	}
	chosen := t.TempDir()
	t.Setenv("TMPDIR", chosen)
	if dirs := baseDirs(false); !slices.Equal(dirs, []string{chosen}) {
		t.Errorf("with TMPDIR=%s they are in one of %v", chosen, dirs)
	}
}
