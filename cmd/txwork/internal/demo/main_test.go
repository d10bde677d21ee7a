//go:build unix

package demo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/txwork/txwork/cmd/txwork/internal/demo"
)

// The test binary is a worker if its first argument says so, and a demo that can be interrupted or killed if it is
// asDemo.
const (
	asWorker = "demo-test-worker"
	asDemo   = "demo-test-parent"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case asWorker:
			exit(demo.RunWorker(context.Background(), os.Stdin, os.Stdout))
		case asDemo:
			exit(playDemo())
		}
	}
	os.Exit(m.Run())
}

func exit(err error) {
	if errors.Is(err, demo.ErrInterrupted) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(130)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// playDemo takes several seconds. One worker is frozen for a part of them.
func playDemo() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := demo.Run(ctx, options(demo.Options{Transfers: 8000, Progress: os.Stderr})) // on a private server
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report.Result)
}

func options(o demo.Options) demo.Options {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	o.Worker = []string{self, asWorker}
	return o
}
