//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localpg

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// installed returns the binaries of this machine, and the user that runs them.
func installed(t *testing.T) (bin string, o *owner) {
	t.Helper()
	o, err := serverOwner()
	if err == nil {
		bin, err = findBinaries(t.Context(), "", o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return bin, o
}

// cacheFor returns an empty directory that the owner of servers can enter.
func cacheFor(t *testing.T) string {
	t.Helper()
	cache, err := os.MkdirTemp("/tmp", "localpg-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(cache) })
	if err := os.Chmod(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	return cache
}

func TestTheEmptyClusterIsMadeOnce(t *testing.T) {
	t.Parallel()
	bin, owner := installed(t)
	cache := cacheFor(t)
	made := make([]string, 3)
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() {
			var err error
			if made[i], err = emptyCluster(t.Context(), bin, owner, cache); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	again, err := emptyCluster(t.Context(), "", owner, cache)
	if err == nil {
		t.Errorf("without binaries there is the cluster %s", again)
	}
	if left := list(t, cache); len(left) != 1 || filepath.Join(cache, left[0]) != made[0] {
		t.Fatalf("the cache holds %v", left)
	}
	if !slices.Equal(made, []string{made[0], made[0], made[0]}) {
		t.Errorf("made %v", made)
	}
	if _, err := os.Stat(filepath.Join(made[0], "PG_VERSION")); err != nil {
		t.Error(err)
	}
}

// Binaries that an upgrade replaced in place get a new cluster.
func TestOtherBinariesHaveAnotherCluster(t *testing.T) {
	t.Parallel()
	bin := install(t, t.TempDir(), "bin")
	name := func(o *owner) string {
		t.Helper()
		name, err := clusterName(bin, o)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	names := []string{name(nil), name(&owner{uid: 1})}
	if err := os.Chtimes(filepath.Join(bin, "postgres"), time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	names = append(names, name(nil))
	if names[2] != name(nil) {
		t.Error("the name changes by itself")
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != 3 {
		t.Errorf("got the names %v", names)
	}
}

func TestAServerWithoutTheCache(t *testing.T) {
	t.Parallel()
	bin, owner := installed(t)
	for _, empty := range []string{"", "/nowhere"} {
		s, err := launch(Options{}, bin, empty, owner)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.awaitReady(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestACacheThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	bin, owner := installed(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if empty, err := emptyCluster(t.Context(), bin, owner, file); err == nil {
		t.Errorf("there is a cluster in a file: %s", empty)
	}
}
