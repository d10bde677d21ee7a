package main

import (
	"crypto/rand"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

// runEnv names the variable that marks all processes of one run of a command.
const runEnv = "TXWORK_RUN"

const (
	// killLimit bounds how long is waited for processes to end after SIGKILL, which the kernel may delay.
	killLimit = time.Second

	// leftPause is how long is waited between two looks for processes that a command has left running.
	leftPause = 10 * time.Millisecond
)

// children are the commands that are running. The zero value is ready to use.
type children struct {
	// all is set if every process that descends from this one is a command's. Then those that bear no mark of their
	// command any more are found, too.
	all bool

	mu      sync.Mutex
	running map[int]*family // by the process id of the command
	killed  bool
}

// A family are all processes of one run of a command: itself, those that it has started, and so on. A process may leave
// its group and its session, and its parent may end, so there are several marks by which it is found.
type family struct {
	cmd     *exec.Cmd
	mark    string       // runEnv with the value of this run
	asked   atomic.Int64 // when they were asked to end, in nanoseconds since 1970; 0: not yet
	orphans map[int]bool // members that are children of this process by now
}

// run runs a command as its own process group, so that an interrupt from the terminal reaches this program and not the
// command. When the command's context ends, all its processes are asked to end. They are killed if they have not ended
// within its WaitDelay. What the command has left running when it ended has as long to end by itself.
func (c *children) run(cmd *exec.Cmd) error {
	adoptOrphans()
	ownGroup(cmd)
	f := &family{cmd: cmd, mark: variable(runEnv, rand.Text()), orphans: map[int]bool{}}
	cmd.Env = append(cmd.Env, f.mark)
	cmd.Cancel = func() error {
		f.asked.Store(time.Now().UnixNano())
		return f.terminate()
	}
	if err := c.start(f); err != nil {
		return err
	}
	defer c.ended(f)
	return f.wait()
}

func (c *children) start(f *family) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed {
		return errInterrupted
	}
	if err := f.cmd.Start(); err != nil {
		return err
	}
	if c.running == nil {
		c.running = map[int]*family{}
	}
	c.running[f.cmd.Process.Pid] = f
	return nil
}

func (c *children) ended(f *family) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, f.cmd.Process.Pid)
	if !c.all {
		return
	}
	if len(c.running) == 0 {
		killDescendants()
	}
	bury(func(pid int) bool { return c.running[pid] == nil })
}

// clear waits until no process of the family but the command itself, which has ended, is left, and kills those that
// have not ended in time.
func (f *family) clear() {
	limit := time.Now().Add(f.cmd.WaitDelay)
	if asked := f.asked.Load(); asked != 0 {
		limit = time.Unix(0, asked).Add(f.cmd.WaitDelay)
	}
	for f.left() && time.Now().Before(limit) {
		time.Sleep(leftPause)
	}
	for end := time.Now().Add(killLimit); f.left() && time.Now().Before(end); time.Sleep(time.Millisecond) {
		f.kill()
	}
}

// kill kills all running commands and prevents new ones from starting.
func (c *children) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	for _, f := range c.running {
		f.kill()
	}
	if c.all && c.running != nil {
		killDescendants()
	}
}
