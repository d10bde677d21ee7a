package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/txwork/txwork/bench/protocol"
)

// stopLimit is how long a process may take to stop before it is killed.
const stopLimit = 15 * time.Second

// A process is a peer in a phase.
type process struct {
	command *exec.Cmd
	stdin   io.Closer
	events  chan protocol.Event
	broken  error // why events ended, unless the process ended
	log     tail
}

// start starts a phase. The process is stopped when ctx ends.
func start(ctx context.Context, command []string, phase protocol.Phase, c protocol.Config) (*process, error) {
	p := &process{events: make(chan protocol.Event)}
	p.command = exec.CommandContext(ctx, command[0], append(command[1:len(command):len(command)], string(phase))...)
	p.command.Env = append(os.Environ(), c.Env())
	p.command.Stderr = &p.log
	p.command.Cancel = func() error { return terminate(p.command.Process) }
	p.command.WaitDelay = stopLimit
	apart(p.command)
	stdin, err := p.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = stdin
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go p.read(stdout)
	return p, nil
}

func (p *process) read(stdout io.Reader) {
	defer close(p.events)
	p.broken = protocol.Read(stdout, func(e protocol.Event) error { p.events <- e; return nil })
	_, _ = io.Copy(io.Discard, stdout) // so that it does not wait for a reader
}

// await returns the next event of a kind.
func (p *process) await(kind protocol.Kind) (protocol.Event, error) {
	e, more := <-p.events
	switch {
	case !more:
		return e, fmt.Errorf("it ended before the event %q", kind)
	case e.Kind != kind:
		return e, fmt.Errorf("the event %q came in the place of %q", e.Kind, kind)
	}
	return e, nil
}

// stop asks the process to end, waits for it and returns the processor time that it has used.
func (p *process) stop() (time.Duration, error) {
	_ = p.stdin.Close()
	late := time.AfterFunc(stopLimit, func() { _ = p.command.Process.Kill() })
	defer late.Stop()
	return p.wait()
}

// wait waits until the process has ended by itself.
func (p *process) wait() (time.Duration, error) {
	for range p.events { // events that were not awaited
	}
	err := p.command.Wait()
	if err == nil {
		err = p.broken
	}
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", p.command, err, &p.log)
	}
	state := p.command.ProcessState
	return state.UserTime() + state.SystemTime(), err
}

// peak is the line of a process's status with the most memory that it has used.
var peak = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory returns the most resident memory that a process has used so far, in MiB, or 0 where there is no /proc. The
// system's own count for ended children would begin with what this program used when it started them.
func peakMemory(pid int) float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	found := peak.FindSubmatch(status)
	if found == nil {
		return 0
	}
	kib, _ := strconv.ParseFloat(string(found[1]), 64)
	return kib / 1024
}

// do runs a phase that ends by itself, after one event of a kind, or without an event if the kind is "".
func do(ctx context.Context, command []string, phase protocol.Phase, c protocol.Config,
	kind protocol.Kind) (e protocol.Event, cpu time.Duration, err error) {
	p, err := start(ctx, command, phase, c)
	if err != nil {
		return e, 0, err
	}
	defer p.stdin.Close()
	var missing error
	if kind != "" {
		e, missing = p.await(kind)
	}
	cpu, err = p.wait()
	if err == nil {
		err = missing
	}
	return e, cpu, err
}

// A tail keeps the end of what is written to it.
type tail struct{ text []byte }

// tailSize is enough for a stack or an SQL error.
const tailSize = 4 << 10

func (t *tail) Write(text []byte) (int, error) {
	t.text = append(t.text, text...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(text), nil
}

func (t *tail) String() string { return string(t.text) }
