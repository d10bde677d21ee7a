package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// A display tells people what happens: a progress bar under the lines on a terminal, lines elsewhere.
type display struct {
	mu    sync.Mutex
	w     io.Writer
	bar   *progressbar.ProgressBar // nil before begin, and where there is no terminal
	total int
	told  time.Time // the last line about progress
}

// lineEvery keeps a log short and shows that something goes on.
const lineEvery = 5 * time.Second

func newDisplay(w io.Writer, total int) *display {
	if w == nil {
		w = io.Discard
	}
	return &display{w: w, total: total, told: time.Now()}
}

// begin shows the bar: from now on its time runs.
func (d *display) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f, ok := d.w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		d.bar = progressbar.NewOptions(d.total,
			progressbar.OptionSetWriter(f),
			progressbar.OptionSetDescription("applied"),
			progressbar.OptionSetWidth(30),
			progressbar.OptionShowCount(),
			progressbar.OptionShowIts(),
			progressbar.OptionSetItsString("messages"),
			progressbar.OptionSetRenderBlankState(true),
		)
	}
}

// say prints a line.
func (d *display) say(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bar != nil {
		_ = d.bar.Clear()
	}
	fmt.Fprintln(d.w, strings.TrimRight(fmt.Sprintf(format, args...), "\n"))
}

// progress shows how many messages are applied.
func (d *display) progress(applied int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bar != nil {
		_ = d.bar.Set(min(applied, d.total)) // a display that fails is no reason to stop
		return
	}
	if time.Since(d.told) >= lineEvery {
		d.told = time.Now()
		fmt.Fprintf(d.w, "%d of %d messages applied\n", applied, d.total)
	}
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// done removes the bar: what it showed is over.
func (d *display) done() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bar != nil {
		_ = d.bar.Clear()
		d.bar = nil
	}
}
