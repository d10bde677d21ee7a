package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Environment variables of the dynamic loader, and of producers/slowdisk/slowdisk.c.
const (
	preloadEnv = "LD_PRELOAD"
	delayEnv   = "SLOW_DISK_US"
)

// slowDisk makes each flush of processes that are started from now on take longer by delay, until undo is called. It
// needs a C compiler, and a dynamic loader that supports preloading.
func (l *Lab) slowDisk(ctx context.Context, delay time.Duration) (undo func() error, err error) {
	if err := os.Chmod(l.temp, 0o755); err != nil { // the server may run as another user
		return nil, err
	}
	shim := filepath.Join(l.temp, "slowdisk.so")
	err = l.tool(ctx, l.dir, "cc", "-O2", "-shared", "-fPIC", "-o", shim, filepath.Join("producers", "slowdisk",
		"slowdisk.c"), "-ldl")
	if err != nil {
		return nil, fmt.Errorf("a slow disk: %w", err)
	}
	if err := os.Setenv(delayEnv, strconv.FormatInt(delay.Microseconds(), 10)); err != nil {
		return nil, err
	}
	undo = func() error { return errors.Join(os.Unsetenv(preloadEnv), os.Unsetenv(delayEnv)) }
	return undo, os.Setenv(preloadEnv, shim)
}
