//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localpg

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// tinyArchive is an .txz with PostgreSQL's programs, which only their owner may read and each of which leaves a file
// beside itself if it is run; and with the library lib/libpq.so.5 and a symbolic link to it.
const tinyArchive = "" +
	"/Td6WFoAAATm1rRGAgAhARwAAAAQz1jM4Cf/AM9dADEaShsFkZA3OlG9V3Gz1uEhGuzodTR9POemV5xBuI5pdqsf/+" +
	"4UwN7nrRvpQeLY+oy6IuqkfpdK4ENScO1wcPXWtWd7w7GMYNEnG7/WmSmQPvGt+CYjlmeZYNSeYgUTW+1gNzRdg1Fp" +
	"hyz0qWOOZ6On2juPY5qVfPLXReVddthlOMLplMaJOblHIqusgrOSfL48W9vdOFRJM79bfcg+w89T0ZlnmIM5tiqnkS" +
	"ENxUk/G8qUqnCvJPxpAy53vvWaIK4O3mc8i06pkGKyd9MGAAAAEatucbNL9JgAAesBgFAAAKeOUwOxxGf7AgAAAAAE" +
	"WVo="

// evilArchive is an .txz with the file ../evil.
const evilArchive = "" +
	"/Td6WFoAAATm1rRGAgAhARwAAAAQz1jM4Cf/AFldABdguMp2M665KbST0FIAU4gDG7wGcNKTVcS9VJrFvfyH0PYqNa" +
	"ip+93dRRgTtv1slnCQzyoJILeE4C9HeCZkFs37fFZrfykkUO7cTMVX0vwy599aMCxwFsQAAAAAAGr2JLU0gZuBAAF1" +
	"gFAAAACf91HiscRn+wIAAAAABFla"

// nowhere is an address at which no server listens.
const nowhere = "http://127.0.0.1:1"

// A repository serves an archive as Maven Central serves PostgreSQL.
type repository struct {
	archive string // base64
	cut     int    // bytes that are missing at the end of the archive
	sum     string // checksum of the jar; "": the right one, "none": there is none
}

func (r repository) serve(t *testing.T) (url string) {
	t.Helper()
	archive, err := base64.StdEncoding.DecodeString(r.archive)
	if err != nil {
		t.Fatal(err)
	}
	var jar bytes.Buffer
	files := zip.NewWriter(&jar)
	file, _ := files.Create("postgres.txz")
	_, _ = file.Write(archive[:len(archive)-r.cut])
	_ = files.Close()
	if r.sum == "" {
		r.sum = fmt.Sprintf("%x", sha256.Sum256(jar.Bytes()))
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		path := "/io/zonky/test/postgres/embedded-postgres-binaries-" + platform() + "/" + downloadVersion + "/" +
			"embedded-postgres-binaries-" + platform() + "-" + downloadVersion + ".jar"
		switch {
		case request.URL.Path == path:
			_, _ = w.Write(jar.Bytes())
		case request.URL.Path == path+".sha256" && r.sum != "none":
			_, _ = fmt.Fprintln(w, r.sum)
		default:
			http.NotFound(w, request)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestDownload(t *testing.T) {
	t.Parallel()
	for _, sum := range []string{"", "none"} {
		address, cache := repository{archive: tinyArchive, sum: sum}.serve(t), filepath.Join(t.TempDir(), "cache")
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				dir, err := downloadFrom(t.Context(), address, cache)
				if err == nil {
					err = finder{}.check(dir)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		checkDownload(t, cache)
	}
}

// checkDownload checks what is in the cache: nothing but the binaries, which everybody may read and none of which was
// run.
func checkDownload(t *testing.T, cache string) {
	t.Helper()
	root := filepath.Join(cache, "postgresql-"+downloadVersion)
	for dir, want := range map[string][]string{
		cache:                      {"postgresql-" + downloadVersion},
		filepath.Join(root, "bin"): {"initdb", "pg_ctl", "postgres"},
		filepath.Join(root, "lib"): {"libpq.so", "libpq.so.5"},
	} {
		if got := list(t, dir); !slices.Equal(got, want) {
			t.Errorf("%s holds %v, want %v", dir, got, want)
		}
	}
	for file, want := range map[string]os.FileMode{"bin/postgres": 0o755, "lib/libpq.so": 0o644} {
		if info, err := os.Stat(filepath.Join(root, file)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has the mode %v, %v; want %v", file, info.Mode(), err, want)
		}
	}
}

func TestADownloadThatIsThereIsNotRepeated(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	if _, err := downloadFrom(t.Context(), repository{archive: tinyArchive}.serve(t), cache); err != nil {
		t.Fatal(err)
	}
	if _, err := downloadFrom(t.Context(), nowhere, cache); err != nil {
		t.Errorf("without a network: %v", err)
	}
}

// A directory that lacks a program, such as one that somebody has emptied, is replaced.
func TestAnIncompleteDownloadIsReplaced(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	bin := filepath.Join(cache, "postgresql-"+downloadVersion, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := downloadFrom(t.Context(), repository{archive: tinyArchive}.serve(t), cache); err != nil {
		t.Fatal(err)
	}
	checkDownload(t, cache)
}

func TestFailedDownload(t *testing.T) {
	t.Parallel()
	for want, address := range map[string]string{
		"file does not exist": httptestURL(t, http.NotFoundHandler()),
		"503": httptestURL(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
		})),
		"not a valid zip file": httptestURL(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, ".sha256") {
				http.NotFound(w, r)
			}
		})),
		"checksum":            repository{archive: tinyArchive, sum: strings.Repeat("0", 64)}.serve(t),
		"data is truncated":   repository{archive: tinyArchive, cut: 100}.serve(t),
		"is truncated":        repository{archive: tinyArchive, cut: 8, sum: "none"}.serve(t),
		"escapes from parent": repository{archive: evilArchive}.serve(t),
		"connect: ":           nowhere,
	} {
		cache := t.TempDir()
		dir, err := downloadFrom(t.Context(), address, cache)
		if err == nil {
			t.Errorf("downloaded %s, want an error with %q", dir, want)
		} else if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), downloadVersion) {
			t.Errorf("the error is %v, want %q and the version", err, want)
		}
		if left := list(t, cache); len(left) != 0 {
			t.Errorf("%s: the cache holds %v", want, left)
		}
	}
}

func TestADownloadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	address := httptestURL(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	cache := t.TempDir()
	if dir, err := downloadFrom(ctx, address, cache); !errors.Is(err, context.Canceled) {
		t.Errorf("downloaded %s, %v", dir, err)
	}
	if left := list(t, cache); len(left) != 0 {
		t.Errorf("the cache holds %v", left)
	}
}

func httptestURL(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
