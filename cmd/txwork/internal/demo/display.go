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

// A display shows people what happens: on a terminal as lines above a progress bar, elsewhere as lines only.
type display struct {
	mu    sync.Mutex
	w     io.Writer
	bar   *progressbar.ProgressBar // nil before begin, and if there is no terminal
	total int
	told  time.Time // when the last line about progress was printed
}

// lineEvery is long enough to keep a log short, and short enough to show that the demo is alive.
const lineEvery = 5 * time.Second

func newDisplay(w io.Writer, total int) *display {
	if w == nil {
		w = io.Discard
	}
	return &display{w: w, total: total, told: time.Now()}
}

// begin shows the bar, whose elapsed time starts now.
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
		_ = d.bar.Set(min(applied, d.total)) // a failing display is no reason to stop
		return
	}
	if time.Since(d.told) >= lineEvery {
		d.told = time.Now()
		fmt.Fprintf(d.w, "%d of %d messages applied\n", applied, d.total)
	}
}

// count formats a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// done removes the bar.
func (d *display) done() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bar != nil {
		_ = d.bar.Clear()
		d.bar = nil
	}
}
