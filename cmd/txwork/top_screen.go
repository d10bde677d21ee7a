package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

// resizeInterval is how often the size of the terminal is checked. Polling works on every platform.
const resizeInterval = 200 * time.Millisecond

// A topScreen runs a model on a terminal.
type topScreen struct {
	in, out *os.File
	colours bool
	every   time.Duration
	model   *topModel

	width, height int
	drawn         string
	changes       chan topChange
	busy          bool // a command is running
}

// run shows the model until the user quits or ctx ends, and then restores the terminal in any case. Through restore, a
// second signal, which exits without waiting, can restore the terminal too.
func (s *topScreen) run(ctx context.Context, restore *atomic.Pointer[func()]) error {
	before, err := term.MakeRaw(int(s.in.Fd()))
	if err != nil {
		return err
	}
	leave := sync.OnceFunc(func() {
		fmt.Fprint(s.out, "\x1b[?25h\x1b[?1049l")
		term.Restore(int(s.in.Fd()), before)
	})
	restore.Store(&leave)
	defer leave()
	fmt.Fprint(s.out, "\x1b[?1049h\x1b[?25l\x1b[2J")

	ctx, cancel := context.WithCancel(ctx)
	s.changes = make(chan topChange, 1)
	keys := make(chan string)
	go readKeys(ctx, s.in, keys)
	defer s.wait()
	defer cancel()
	return s.loop(ctx, keys)
}

func (s *topScreen) loop(ctx context.Context, keys <-chan string) error {
	frames := time.NewTicker(s.every)
	defer frames.Stop()
	sizes := time.NewTicker(resizeInterval)
	defer sizes.Stop()
	s.begin(ctx, s.model.refresh)
	for !s.model.quit {
		if err := s.draw(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case key, ok := <-keys:
			if !ok {
				return nil // the terminal has gone away
			}
			if command := s.model.key(key); command != nil && !s.begin(ctx, command) {
				s.model.message = "wait: the last command still runs"
			}
		case change := <-s.changes:
			change(s.model)
		case <-frames.C:
			if !s.model.paused {
				s.begin(ctx, s.model.refresh)
			}
		case <-sizes.C:
		}
	}
	return nil
}

// begin runs a command in the background, unless another one is running.
func (s *topScreen) begin(ctx context.Context, command topCommand) bool {
	if s.busy {
		return false
	}
	s.busy = true
	go func() {
		var change topChange
		defer func() {
			if p := recover(); p != nil {
				text := fmt.Sprintf("%v\n%s", p, debug.Stack())
				change = func(*topModel) { panic(text) } // panics in the loop, which restores the terminal first
			}
			s.changes <- func(m *topModel) {
				s.busy = false
				change(m)
			}
		}()
		tell := func(text string) {
			select {
			case s.changes <- say("%s", text):
			case <-ctx.Done():
			}
		}
		change = command(ctx, tell)
	}()
	return true
}

// wait waits for an interrupted command to end.
func (s *topScreen) wait() {
	for s.busy {
		(<-s.changes)(&topModel{})
	}
}

// draw writes the lines that have changed in a single write.
func (s *topScreen) draw() error {
	width, height, err := sizeOf(s.out)
	if err != nil {
		return err
	}
	s.width, s.height, s.model.height = width, height, height
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, l := range s.model.screen(s.width, s.height) {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(l.paint(s.colours) + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	picture := fmt.Sprint(s.width, s.height, b.String())
	if picture == s.drawn {
		return nil
	}
	s.drawn = picture
	_, err = fmt.Fprint(s.out, b.String())
	return err
}

// readKeys sends the names of the keys that are pressed. It runs until the program ends, because a read from a terminal
// cannot be interrupted.
func readKeys(ctx context.Context, in *os.File, keys chan<- string) {
	defer close(keys)
	buffer := make([]byte, 256)
	for {
		n, err := in.Read(buffer)
		for _, key := range keysOf(string(buffer[:n])) {
			select {
			case keys <- key:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// keyNames are the sequences that terminals send for keys without a letter.
var keyNames = map[string]string{
	"\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left",
	"\x1bOA": "up", "\x1bOB": "down", "\x1bOC": "right", "\x1bOD": "left",
}

// keysOf names the keys in one piece of terminal input.
func keysOf(text string) (keys []string) {
	for text != "" {
		if len(text) >= 3 && text[0] == '\x1b' && (text[1] == '[' || text[1] == 'O') {
			end := 2
			for end < len(text)-1 && (text[end] < '@' || text[end] > '~') {
				end++
			}
			if name := keyNames[text[:end+1]]; name != "" {
				keys = append(keys, name)
			}
			text = text[end+1:]
			continue
		}
		first := text[0]
		text = text[1:]
		switch {
		case first == '\x1b':
			keys = append(keys, "esc")
		case first == '\r' || first == '\n':
			keys = append(keys, "enter")
		case first == 3:
			keys = append(keys, "ctrl-c")
		case first == 8 || first == 127:
			keys = append(keys, "backspace")
		case first >= ' ' && first < 127:
			keys = append(keys, string(rune(first)))
		}
	}
	return keys
}
