package torture

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// Only what a dead run has marked is removed.
func TestLeftoversOfADeadRun(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	made := map[string]string{}
	for _, name := range []string{"dead", "alive", "unmarked"} {
		made[name] = filepath.Join(base, dirPrefix+name)
		if err := os.MkdirAll(filepath.Join(made[name], smallName), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"dead", "alive"} {
		release, err := claimDir(made[name])
		if err != nil {
			t.Fatal(err)
		}
		if name == "dead" {
			err = release()
		} else {
			defer release()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 { // the killed run had mounted it
		small := filepath.Join(made["dead"], smallName)
		if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=64k"); err != nil {
			t.Logf("without a mounted file system: %v", err)
		}
		defer syscall.Unmount(small, syscall.MNT_DETACH)
	}
	if cleared := clearLeftovers(base); !slices.Equal(cleared, []string{made["dead"]}) {
		t.Errorf("cleared %v", cleared)
	}
	for name, dir := range made {
		if _, err := os.Stat(dir); os.IsNotExist(err) != (name == "dead") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
