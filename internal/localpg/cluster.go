//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localpg

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// initdbArgs are the arguments for every cluster. Nothing depends on the machine's locale.
var initdbArgs = []string{"--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"}

// keptCluster returns the empty cluster in the cache, or an empty string if the cache cannot be used or initdb fails.
// The supervisor then runs initdb again, and its log says why it fails.
func keptCluster(ctx context.Context, bin string, owner *owner) string {
	cache, err := cacheDir(owner)
	if err != nil {
		return ""
	}
	empty, err := emptyCluster(ctx, bin, owner, cache)
	if err != nil {
		return ""
	}
	return empty
}

// emptyCluster returns the directory of an empty cluster, which every server copies, because initdb takes ten times as
// long as the copy. The first server with these binaries creates it, and it stays in the cache.
func emptyCluster(ctx context.Context, bin string, owner *owner, cache string) (string, error) {
	name, err := clusterName(bin, owner)
	if err != nil {
		return "", err
	}
	final := filepath.Join(cache, name)
	if _, err := os.Stat(final); err == nil {
		return final, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	return final, makeCluster(ctx, bin, owner, final)
}

// clusterName is different for different clusters: for other binaries, even if they were upgraded in place, and for
// another owner.
func clusterName(bin string, owner *owner) (string, error) {
	hash := sha256.New()
	for _, program := range programs {
		info, err := os.Stat(filepath.Join(bin, program))
		if err != nil {
			return "", err
		}
		fmt.Fprintln(hash, bin, program, info.Size(), info.ModTime().UnixNano())
	}
	if owner != nil {
		fmt.Fprintln(hash, owner.uid)
	}
	fmt.Fprintln(hash, initdbArgs)
	return fmt.Sprintf("cluster-%x", hash.Sum(nil)[:8]), nil
}

// makeCluster puts a cluster in place with one rename, so that several processes may do this at once and none sees a
// partial one.
func makeCluster(ctx context.Context, bin string, owner *owner, final string) (err error) {
	work, err := os.MkdirTemp(filepath.Dir(final), "initdb-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := owner.own(work); err != nil {
		return err
	}
	data := filepath.Join(work, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), append(initdbArgs, "-D", data)...)
	initdb.Dir, initdb.Env = "/", serverEnv(work)
	initdb.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: owner.credential()}
	if output, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, bytes.TrimSpace(output))
	}
	if err := os.Rename(data, final); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}
