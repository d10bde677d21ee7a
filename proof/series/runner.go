//go:build unix

package series

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A runner is one series.
type runner struct {
	options options
	code    string // revision of it
	program string
	out     io.Writer
}

// build compiles the command once for all runs.
func (r *runner) build(ctx context.Context) error {
	r.program = filepath.Join(r.options.dir, "proof")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", r.program, "./proof").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// all runs everything without a result. A run that breaks an invariant has a result; an error means that there is none.
func (r *runner) all(ctx context.Context) error {
	waiting := make(chan planned)
	var lanes sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for range max(1, r.options.parallel) {
		lanes.Go(func() {
			for p := range waiting {
				if ctx.Err() != nil {
					continue
				}
				if err := r.run(ctx, p); err != nil {
					mu.Lock()
					errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
					mu.Unlock()
				}
			}
		})
	}
	for _, p := range r.plan() {
		if !r.has(p) {
			waiting <- p
		}
	}
	close(waiting)
	lanes.Wait()
	return errors.Join(append(errs, context.Cause(ctx))...)
}

func (r *runner) has(p planned) bool {
	old, err := readResult(r.options.dir, p)
	return err == nil && old.same(r.code, p)
}

func (r *runner) run(ctx context.Context, p planned) (err error) {
	start := time.Now()
	fmt.Fprintf(r.out, "%s begins\n", p.name)
	done := result{
		Code: r.code, Args: p.args, When: start.UTC().Truncate(time.Second), planned: p,
		Machine: fmt.Sprintf("%d CPUs, %s", runtime.NumCPU(), runtime.GOARCH), Beside: max(1, r.options.parallel) - 1,
	}
	if p.kind == brokenBuilds {
		done.Builds, err = r.torturesBroken(ctx)
	} else {
		err = r.torture(ctx, &done)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(r.out, "%s ended after %v\n", p.name, time.Since(start).Round(time.Second))
	return done.write(r.options.dir)
}

// torture runs the command. With exit code 1 there is a report.
func (r *runner) torture(ctx context.Context, done *result) error {
	args := append([]string{"torture", "--json"}, done.Args...)
	if r.options.install {
		args = append(args, "--install")
	}
	cmd, closeLog, err := r.command(ctx, done.planned.name, r.program, args...)
	if err != nil {
		return err
	}
	defer closeLog()
	var out bytes.Buffer
	cmd.Stdout = &out
	ran := cmd.Run()
	if err := json.Unmarshal(out.Bytes(), &done.Report); err != nil {
		return errors.Join(ran, err, fmt.Errorf("see %s.log", done.planned.name))
	}
	return nil
}

// stopLimit is how long a run may take to stop its crew and its servers.
const stopLimit = 2 * time.Minute

// command makes a command whose output goes to a log. An interrupted program cleans up.
func (r *runner) command(ctx context.Context, name, program string, args ...string) (*exec.Cmd, func() error, error) {
	log, err := os.Create(filepath.Join(r.options.dir, name+".log"))
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = stopLimit
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches it only once, through Cancel
	cmd.Stderr = log
	return cmd, log.Close, nil
}
