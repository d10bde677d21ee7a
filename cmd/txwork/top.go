package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// topOptions are the flags of top.
type topOptions struct {
	every      time.Duration
	limit      time.Duration
	once, json bool
	width      int
}

func newTopCommand(a *app) *cobra.Command {
	var o topOptions
	cmd := newCommand("top", "Watch queues, leases, sessions and errors", noArguments)
	flags := cmd.Flags()
	flags.DurationVar(&o.every, "every", 2*time.Second, "the time between two frames")
	flags.DurationVar(&o.limit, "statement-timeout", topStatement,
		"how long each statement may take; what takes longer is left out")
	flags.BoolVar(&o.once, "once", false, "print one frame")
	flags.IntVar(&o.width, "width", 0, "with --once, the width of the frame (default: the terminal's, or 80)")
	jsonVar(flags, &o.json, "print one frame as one JSON object on one line", topFrame{})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case o.every < 100*time.Millisecond:
			return usagef("--every is %v, it must be at least 100ms", o.every)
		case o.limit < time.Millisecond || o.limit%time.Millisecond != 0:
			return usagef("--statement-timeout is %v, it must be whole milliseconds", o.limit)
		case o.width < 0 || o.width > 0 && o.width < minWidth:
			return usagef("--width is %d, it must be at least %d", o.width, minWidth)
		}
		return a.withDatabase(cmd.Context(), func(d *database) error { return a.top(cmd.Context(), d, o) })
	}
	return cmd
}

func (a *app) top(ctx context.Context, d *database, o topOptions) error {
	reader := &topReader{db: d, limit: o.limit}
	in, inOK := a.stdin.(*os.File)
	out, outOK := terminalOf(a.stdout)
	if o.once || o.json || !inOK || !outOK || !term.IsTerminal(int(in.Fd())) {
		return a.topOnce(ctx, reader, o)
	}
	// Log messages of the library would break up the screen.
	told := a.stderr
	a.stderr = io.Discard
	defer func() { a.stderr = told }()
	s := &topScreen{in: in, out: out, colours: a.colours(), every: o.every, model: &topModel{db: d, reader: reader}}
	return s.run(ctx, &a.restore)
}

func (a *app) topOnce(ctx context.Context, reader *topReader, o topOptions) error {
	f, err := reader.read(ctx)
	if err != nil {
		return explain(err)
	}
	if o.json {
		return a.printJSON(f)
	}
	width, colours := o.width, false
	if out, ok := terminalOf(a.stdout); ok {
		if w, _, err := sizeOf(out); err == nil && width == 0 {
			width = w
		}
		colours = a.colours()
	}
	width = cmp.Or(width, topWidth)
	var b strings.Builder
	for _, l := range f.lines(width) {
		b.WriteString(l.paint(colours) + "\n")
	}
	_, err = io.WriteString(a.stdout, b.String())
	return err
}

// terminalOf returns the file that is written to, if it is a terminal.
func terminalOf(w io.Writer) (*os.File, bool) {
	if p, ok := w.(*pipe); ok {
		w = p.Writer
	}
	f, ok := w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// sizeOf returns a terminal's size, and 80 × 24 if it is unset, as is common on serial lines, in containers and under
// programs that run others on a terminal.
func sizeOf(terminal *os.File) (width, height int, err error) {
	width, height, err = term.GetSize(int(terminal.Fd()))
	return cmp.Or(width, 80), cmp.Or(height, 24), err
}

// colours tells whether the user wants colours on the terminal, see no-color.org.
func (a *app) colours() bool { return a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb" }

// paint returns the line with the escape codes of its style. Without colours only the line under the cursor is
// highlighted.
func (l styledLine) paint(colours bool) string {
	code := map[style]string{bold: "1", warning: "33", alarm: "31", reverse: "7"}[l.style]
	if code == "" || !colours && l.style != reverse {
		return l.text
	}
	return fmt.Sprintf("\x1b[%sm%s\x1b[0m", code, l.text)
}
