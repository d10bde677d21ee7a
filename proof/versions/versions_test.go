package versions

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestChoice(t *testing.T) {
	t.Parallel()
	for only, want := range map[string]int{"": len(matrix(true)), "17": 1, "pgbouncer": len(poolable), "17,18.4": 2,
		"Go 1": len(toolchains), "19": 0} {
		o, err := parse([]string{"--only", only})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(named(matrix(true), o.only)); got != want {
			t.Errorf("--only %q chose %d, want %d", only, got, want)
		}
	}
	if o, err := parse([]string{"more"}); err == nil {
		t.Errorf("got %+v", o)
	}
}

func TestOnlyWhatWasPinnedIsInstalled(t *testing.T) {
	t.Parallel()
	// of nothing
	r := release{pack: "1.0.0",
		integrity: "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg=="}
	if err := r.verify(nil); err != nil {
		t.Error(err)
	}
	if err := r.verify([]byte("another")); err == nil || !strings.Contains(err.Error(), "not what was pinned") {
		t.Errorf("got %v", err)
	}
}

type entry struct {
	name, content string
	mode          int64
}

func archive(t *testing.T, entries ...entry) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	files := tar.NewWriter(zipped)
	for _, e := range entries {
		err := files.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.name, Size: int64(len(e.content)),
			Mode: e.mode})
		if err == nil {
			_, err = files.Write([]byte(e.content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(files.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return &b
}

func TestUnpack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	links := `[{"source": "native/lib/libpq.so.5.18", "target": "native/lib/libpq.so.5"}]`
	err := unpack(archive(t,
		entry{"package/native/bin/postgres", "program", 0o700},
		entry{"package/native/lib/libpq.so.5.18", "library", 0o600},
		entry{"package/native/pg-symlinks.json", links, 0o600},
	), dir)
	if err != nil {
		t.Fatal(err)
	}
	native := filepath.Join(dir, "package", "native")
	for name, want := range map[string]os.FileMode{"bin": 0o755 | os.ModeDir, "bin/postgres": 0o755,
		"lib/libpq.so.5.18": 0o644} {
		info, err := os.Stat(filepath.Join(native, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(native, "lib", "libpq.so.5")); string(text) != "library" {
		t.Errorf("the link leads to %q, %v", text, err)
	}
}

func TestNothingIsUnpackedElsewhere(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "work")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unpack(archive(t, entry{"../outside", "x", 0o644}), dir); err == nil {
		t.Error("a path that leads out was taken")
	}
	if _, err := os.Stat(filepath.Join(parent, "outside")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v for what is outside", err)
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	output := []byte("=== RUN   TestA\n    --- PASS: TestA/one (0.00s)\n--- PASS: TestA (0.00s)\n--- SKIP: TestB " +
		"(0.00s)\n")
	var r result
	r.add("p", output, nil)
	if r.passed != 2 || r.skipped != 1 || r.failed != 0 || r.verdict() != "pass" {
		t.Errorf("got %+v", r)
	}
	r.add("q", []byte("    --- FAIL: TestC/two (0.00s)\n--- FAIL: TestC (0.00s)\n"), errors.New("exit status 1"))
	if r.failed != 2 || len(r.failures) != 2 || r.verdict() != "FAIL" {
		t.Errorf("got %+v", r)
	}
	ended := result{passed: 1}
	ended.add("r", []byte("panic: test timed out"), errors.New("exit status 2"))
	if len(ended.failures) != 1 || ended.verdict() != "FAIL" {
		t.Errorf("got %+v", ended)
	}
	if empty := (result{}); empty.verdict() != "FAIL" {
		t.Error("a suite in which nothing ran passed")
	}
	if missing := (result{why: "no network", unavailable: true}); missing.verdict() != "SKIPPED" {
		t.Errorf("what cannot be had is %s", missing.verdict())
	}
}
