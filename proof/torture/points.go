//go:build unix

package torture

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"sync"
	"syscall"
)

// A pointSet sends signals to its own process at the points that are armed.
type pointSet struct {
	mu     sync.Mutex
	armed  map[string]string // signals by point
	termed bool              // SIGTERM was sent: a second one would be a different order
	out    *json.Encoder
	cold   *freezer
}

func newPoints(stdout io.Writer) *pointSet {
	p := &pointSet{armed: map[string]string{}, out: json.NewEncoder(stdout)}
	p.cold = newFreezer(func(statement string) { p.say(report{What: isFrozen, Statement: statement}) })
	return p
}

// obey follows orders until the run is gone, and then exits the process, because a process that was stopped in the
// middle of a handler would never end.
func (p *pointSet) obey(input *bufio.Scanner) {
	for input.Scan() {
		var o order
		if json.Unmarshal(input.Bytes(), &o) != nil {
			break
		}
		if o.Point == pointThaw {
			p.cold.thaw()
			continue
		}
		p.arm(o)
	}
	os.Exit(1)
}

func (p *pointSet) arm(o order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	reached := len(p.armed) == 0
	clear(p.armed)
	switch {
	case o.Point == pointNow && o.Signal == signalStop && reached: // it has stopped; nobody would continue it again
		return
	case o.Point == pointNow:
		p.raise(o.Signal)
		return
	}
	p.armed[o.Point] = o.Signal
}

// raise sends a signal to the process. The caller holds p.mu.
func (p *pointSet) raise(name string) {
	if p.termed {
		return
	}
	p.termed = name == signalTerm
	_ = syscall.Kill(syscall.Getpid(), signals[name])
}

func (p *pointSet) say(r report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.out.Encode(r) // if the run is gone nobody reads it, and obey exits
}

var signals = map[string]syscall.Signal{signalKill: syscall.SIGKILL, signalStop: syscall.SIGSTOP,
	signalTerm: syscall.SIGTERM}

// reach is called when the process reaches a point. It does not return if the process is killed there.
func (p *pointSet) reach(point string) {
	p.mu.Lock()
	name := p.armed[point]
	delete(p.armed, point)
	p.mu.Unlock()
	if name == "" {
		return
	}
	p.say(report{What: isReached, Point: point})
	p.mu.Lock()
	p.raise(name)
	p.mu.Unlock()
	if name == signalKill {
		select {}
	}
}
