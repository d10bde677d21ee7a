//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/txwork/txwork/outbox"
)

// A tty is a terminal that is controlled by a test.
type tty struct {
	t             *testing.T
	master, slave *os.File
	before        unix.Termios

	mu    sync.Mutex
	shown strings.Builder
}

func newTTY(t *testing.T) *tty {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo terminals: %v", err)
	}
	must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	must(t, err)
	y := &tty{t: t, master: master, slave: slave, before: termios(t, slave)}
	y.resize(80, 24)
	read := make(chan struct{})
	go func() {
		defer close(read)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			y.mu.Lock()
			y.shown.Write(buffer[:n])
			y.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		master.WriteString("\n") // ends a pending read of a key
		slave.Close()
		<-read // the last writer is gone
		master.Close()
	})
	return y
}

func termios(t *testing.T, f *os.File) unix.Termios {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	must(t, err)
	return *state
}

func (y *tty) resize(width, height uint16) {
	y.t.Helper()
	must(y.t, unix.IoctlSetWinsize(int(y.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width}))
}

func (y *tty) text() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.shown.String()
}

// shows waits for a text on the terminal.
func (y *tty) shows(text string) {
	y.t.Helper()
	eventually(y.t, "the terminal shows "+text, func() bool { return strings.Contains(y.text(), text) })
}

// restored fails the test unless the terminal's settings are as before.
func (y *tty) restored() {
	y.t.Helper()
	if now := termios(y.t, y.slave); now != y.before {
		y.t.Errorf("the terminal is %+v, was %+v", now, y.before)
	}
	y.shows("\x1b[?25h\x1b[?1049l")
}

func TestTopOnATerminal(t *testing.T) {
	c := newMigratedCLI(t)
	c.populate()
	for name, end := range map[string]func(y *tty, p *os.Process){
		"quits":           func(y *tty, _ *os.Process) { y.master.WriteString("q") },
		"ctrl-c":          func(y *tty, _ *os.Process) { y.master.WriteString("\x03") },
		"signal":          func(_ *tty, p *os.Process) { p.Signal(syscall.SIGTERM) },
		"signal of a key": func(y *tty, p *os.Process) { y.master.WriteString("?"); p.Signal(os.Interrupt) },
	} {
		t.Run(name, func(t *testing.T) {
			y := newTTY(t)
			cmd := c.in(t).process(slices.Concat(patientTop, []string{"--every", "100ms"})...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = y.slave, y.slave, y.slave
			must(t, cmd.Start())
			y.shows("outbox")
			if strings.Contains(y.text(), "WAITING FOR") {
				t.Error("a column for wide terminals is shown at 80 columns")
			}
			y.resize(200, 50)
			y.shows("WAITING FOR")
			end(y, cmd.Process)
			if err := cmd.Wait(); err != nil {
				t.Errorf("it ended with %v:\n%s", err, y.text())
			}
			y.restored()
		})
	}
}

// Top works on a terminal that does not report its size.
func TestTopOnATerminalWithoutASize(t *testing.T) {
	c := newMigratedCLI(t)
	y := newTTY(t)
	y.resize(0, 0)
	cmd := c.process(patientTop...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = y.slave, y.slave, y.slave
	must(t, cmd.Start())
	y.shows("outbox")
	y.master.WriteString("q")
	must(t, cmd.Wait())
	y.restored()
}

// Colours appear only on terminals, and only if the user has not turned them off.
func TestColoursAreForTerminals(t *testing.T) {
	c := newMigratedCLI(t)
	c.exec("GRANT SELECT ON {schema}.outbox TO PUBLIC")
	if r := c.doctor().exits(3); strings.Contains(r.stdout, "\x1b") {
		t.Errorf("there is an escape in %q", r.stdout)
	}
	on := func(env ...string) *tty {
		y := newTTY(t)
		cmd := c.process(patiently...)
		cmd.Env = append(cmd.Env, append([]string{"NO_COLOR=", "TERM=xterm"}, env...)...)
		cmd.Stdout = y.slave
		cmd.Run() // its exit code is not 0, because there are findings
		y.shows("REVOKE SELECT")
		return y
	}
	on().shows("\x1b[33mWARNING  PUBLIC has 1 privilege")
	for _, env := range []string{"NO_COLOR=1", "TERM=dumb"} {
		if text := on(env).text(); strings.Contains(text, "\x1b") {
			t.Errorf("with %s there is an escape sequence in %q", env, text)
		}
	}
}

// An operation that takes longer than a second shows its progress, its rate and the remaining time.
func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	y := newTTY(t)
	p := (&app{stderr: y.slave}).newTally("redriven", "rows", 1_000_000)
	begin, n := time.Now(), int64(0)
	eventually(t, "a bar", func() bool {
		n++
		p.set(n)
		return strings.Contains(y.text(), "/1000000")
	})
	if took := time.Since(begin); took < tallyAfter {
		t.Errorf("it showed after %v", took)
	}
	y.shows("rows/")
	y.shows("redriven")
	passedAndRemains := regexp.MustCompile(`\[\d+s:\d+\w+`)
	eventually(t, "the time", func() bool { return passedAndRemains.MatchString(y.text()) })
	(&app{stderr: io.Discard}).newTally("redriven", "rows", 1).set(1)

	p.end()
	wait := (&app{stderr: y.slave}).newWait("fixing")
	y.shows("fixing")
	wait.end()
	if !wait.bar.IsFinished() || !p.bar.IsFinished() {
		t.Error("a bar that has ended is drawn again")
	}
	if p := (&app{stderr: y.slave, asJSON: true}).newWait("fixing"); p.bar != nil {
		t.Error("a progress bar is shown although JSON was asked for")
	}
}

// A command that waits shows what it waits for, and after Ctrl-C it reports what was done.
func TestWhatTakesLongIsToldOnATerminal(t *testing.T) {
	for _, test := range []struct{ line, prepare, hold, shows, prints string }{
		{"reap", `UPDATE outbox SET status = 1, owner_token = gen_random_uuid(), locked_until = now() - interval '1 hour',
			attempts = 1`, "LOCK TABLE timers", "reaped (1/", "outbox +1 "},
		{"migrate up", "", "SELECT pg_advisory_xact_lock(4711)", "applying 003_", "applied 002_"},
		{strings.Join(patiently, " ") + " --fix --yes", "DROP INDEX outbox_claim_idx",
			"UPDATE outbox SET status = status", "fixing  [", ""},
		{"outbox relay --exec true --until-empty", "", "SELECT FROM outbox FOR UPDATE", "delivered", ""},
	} {
		t.Run(test.line, func(t *testing.T) {
			c := newMigratedCLI(t)
			c.enqueue(outbox.Message{Topic: "t"})
			switch {
			case test.line == "migrate up":
				c.run("migrate", "down", "--to-version", "1", "--yes", "--drop-rows").ok()
				c.exec(`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
					'BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NULL; END';
					CREATE TRIGGER wait AFTER INSERT ON schema_version FOR EACH ROW WHEN (NEW.version_id = 3)
					EXECUTE FUNCTION wait()`)
			case test.prepare != "":
				c.exec(test.prepare)
			}
			holder, err := c.db.Pool.Begin(t.Context())
			must(t, err)
			defer holder.Rollback(context.Background())
			_, err = holder.Exec(t.Context(), test.hold)
			must(t, err)
			y := newTTY(t)
			cmd := c.process(strings.Fields(test.line)...)
			var stdout strings.Builder
			cmd.Stdout, cmd.Stderr = &stdout, y.slave
			must(t, cmd.Start())
			y.shows(test.shows)
			must(t, cmd.Process.Signal(os.Interrupt))
			cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
				t.Errorf("exit code %d", code)
			}
			y.shows("interrupted")
			if !regexp.MustCompile(test.prints).MatchString(stdout.String()) {
				t.Errorf("stdout is %s, want in it %s", &stdout, test.prints)
			}
		})
	}
}

// Even after a panic, the terminal is restored before anything is printed.
func TestTopRestoresTheTerminalOfAPanic(t *testing.T) {
	t.Parallel()
	y := newTTY(t)
	defer func() {
		if recover() == nil {
			t.Error("there was no panic")
		}
		y.restored()
	}()
	var restore atomic.Pointer[func()]
	s := &topScreen{in: y.slave, out: y.slave, every: 1 << 40, model: &topModel{}} // without a database
	s.run(t.Context(), &restore)
}
