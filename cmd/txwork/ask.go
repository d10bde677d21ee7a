package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// errDeclined ends a command whose user said no.
var errDeclined = errors.New("not confirmed: nothing was changed")

// confirm asks before something that cannot be undone, unless --yes was given.
func (a *app) confirm(ctx context.Context, k asking, question string) error {
	if k.yes {
		return nil
	}
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	yes, answered, err := answer(ctx, bufio.NewReader(a.stdin))
	switch {
	case err != nil:
		fmt.Fprintln(a.stderr)
		return err
	case !answered:
		fmt.Fprintln(a.stderr)
		return usagef("nobody answered: pass --yes, or --dry-run to count only")
	case !yes:
		return errDeclined
	}
	return nil
}

// answer reads one line that says yes or no, or returns when ctx ends. The end of the input is no answer.
func answer(ctx context.Context, from *bufio.Reader) (yes, answered bool, err error) {
	type line struct {
		text string
		err  error
	}
	lines := make(chan line, 1)
	go func() {
		text, err := from.ReadString('\n')
		lines <- line{text, err}
	}()
	select {
	case <-ctx.Done():
		return false, false, ctx.Err()
	case l := <-lines:
		if l.err != nil && l.err != io.EOF {
			return false, false, l.err
		}
		text := strings.ToLower(strings.TrimSpace(l.text))
		return text == "y" || text == "yes", l.err == nil || text != "", nil
	}
}
