package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes this process the parent of every process that descends from it and whose own parent ends. What a
// command leaves behind can then be found: without this, the system's first process would be its parent.
var adoptOrphans = sync.OnceFunc(func() {
	unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // kernels without it leave the groups
})

// wait waits until the whole family has ended. The command's own process is waited for last: until then, its id and
// that of its group cannot belong to others.
func (f *family) wait() error {
	for {
		err := unix.Waitid(unix.P_PID, f.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	f.clear()
	return f.cmd.Wait()
}

// terminate asks all processes of the family to end. It returns os.ErrProcessDone if the command itself had ended.
func (f *family) terminate() error {
	command, found := processOf(f.cmd.Process.Pid)
	err := terminateGroup(f.cmd.Process)
	f.signal(syscall.SIGTERM, func(p process) bool { return p.group != f.cmd.Process.Pid })
	if !found || command.ended {
		return os.ErrProcessDone
	}
	return err
}

func (f *family) kill() {
	killGroup(f.cmd.Process)
	f.signal(syscall.SIGKILL, func(process) bool { return true })
}

// left reports whether processes are left once the command itself has ended. The parents of those that are left have
// ended, up to one whose parent is this process now, so that only its own children are looked at.
func (f *family) left() bool {
	for _, p := range ownChildren() {
		if p.pid != f.cmd.Process.Pid && f.has(p) {
			f.orphans[p.pid] = true
		}
	}
	for pid := range f.orphans {
		if reap(pid) {
			delete(f.orphans, pid)
		}
	}
	return len(f.orphans) > 0
}

// members returns the processes of a family that have not ended: those in the leader's group, those with its mark in
// their environment, and all that descend from one of them. A process that has cleared its environment, has left the
// group, and whose parent has ended is not found.
func (f *family) members(all map[int]process) (members []process) {
	of := map[int]bool{}
	var belongs func(pid, depth int) bool
	belongs = func(pid, depth int) bool {
		if is, known := of[pid]; known {
			return is
		}
		p, known := all[pid]
		of[pid] = known && (f.has(p) || pid > 1 && depth > 0 && belongs(p.parent, depth-1))
		return of[pid]
	}
	self := os.Getpid()
	of[self] = false
	for pid, p := range all {
		if !p.ended && descends(all, pid, self) && belongs(pid, maxDepth) {
			members = append(members, p)
		}
	}
	return members
}

// has reports whether a process bears a mark of the family.
func (f *family) has(p process) bool {
	return p.pid == f.cmd.Process.Pid || p.group == f.cmd.Process.Pid || p.marked(f.mark)
}

// signal sends a signal to members of the family.
func (f *family) signal(s syscall.Signal, to func(process) bool) {
	for _, p := range f.members(table()) {
		if !to(p) {
			continue
		}
		found, err := os.FindProcess(p.pid) // by pidfd: from here on, it is one process whatever becomes of its id
		if err != nil {
			continue
		}
		if now, ok := processOf(p.pid); ok && now.began == p.began {
			found.Signal(s)
		}
		found.Release()
	}
}

// killDescendants kills all processes that descend from this one.
func killDescendants() {
	self := os.Getpid()
	for end := time.Now().Add(killLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		found, all := false, table()
		for pid, p := range all {
			if !p.ended && descends(all, pid, self) {
				found = true
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if !found {
			return
		}
	}
}

// bury reaps the children of this process that have ended and that are orphans.
func bury(orphan func(pid int) bool) {
	for _, p := range ownChildren() {
		if p.ended && orphan(p.pid) {
			reap(p.pid)
		}
	}
}

// reap reports whether a child has ended, of which nothing is left then.
func reap(pid int) bool {
	found, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
	return found == pid || errors.Is(err, syscall.ECHILD)
}

// maxDepth is far more than processes start each other.
const maxDepth = 10_000

func descends(all map[int]process, pid, from int) bool {
	for range maxDepth {
		p, known := all[pid]
		switch {
		case !known || pid == from:
			return false
		case p.parent == from:
			return true
		}
		pid = p.parent
	}
	return false
}

// A process is what /proc tells of one.
type process struct {
	pid, parent, group int
	ended              bool   // and its parent has not waited for it
	began              string // after the system's start
}

// table returns all processes.
func table() map[int]process {
	all := map[int]process{}
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		if p, ok := processOf(pid); ok {
			all[pid] = p
		}
	}
	return all
}

// ownChildren returns the children of this process. Each of its threads has its own, and kernels may not list them.
func ownChildren() (children []process) {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				if p, ok := processOf(pid); ok {
					children = append(children, p)
				}
			}
		}
	}
	if len(lists) > 0 {
		return children
	}
	for _, p := range table() {
		if p.parent == os.Getpid() {
			children = append(children, p)
		}
	}
	return children
}

// processOf reads a process's stat, whose second field is a name in parentheses that may contain anything.
func processOf(pid int) (p process, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, false
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const state, parent, group, began = 0, 1, 2, 19
	if len(fields) <= began {
		return p, false
	}
	p = process{pid: pid, ended: strings.Contains("ZXx", fields[state]), began: fields[began]}
	p.parent, _ = strconv.Atoi(fields[parent])
	p.group, _ = strconv.Atoi(fields[group])
	return p, true
}

// maxEnvironment is more than a process can be started with.
const maxEnvironment = 8 << 20

// marked reports whether a process was started with a variable in its environment.
func (p process) marked(variable string) bool {
	f, err := os.Open("/proc/" + strconv.Itoa(p.pid) + "/environ")
	if err != nil {
		return false
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxEnvironment))
	return bytes.Contains(append([]byte{0}, text...), []byte("\x00"+variable+"\x00"))
}
