package program

import (
	"context"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	chore := func(found bool, err error) Chore {
		return Chore{Name: "dig", Short: "digs", Run: func(_ context.Context, args []string, _, _ io.Writer) (bool,
			error) {
			if len(args) != 1 || args[0] != "--deep" {
				t.Errorf("the arguments are %q", args)
			}
			return found, err
		}}
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name  string
		ctx   context.Context
		chore Chore
		args  string
		code  int
		says  string
	}{
		{"nothing found", t.Context(), chore(false, nil), "dig --deep", 0, ""},
		{"found", t.Context(), chore(true, nil), "dig --deep", 1, ""},
		{"failed", t.Context(), chore(false, errors.New("no spade")), "dig --deep", 2, "proof dig: no spade"},
		{"interrupted", interrupted, chore(false, context.Canceled), "dig --deep", 130, "proof dig: interrupted"},
		{"help", t.Context(), chore(false, flag.ErrHelp), "dig --deep", 0, ""},
		{"unknown", t.Context(), chore(false, nil), "fly", 2, `there is no "fly"`},
		{"nothing", t.Context(), chore(false, nil), "", 2, "proof dig        digs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var said strings.Builder
			if code := run(c.ctx, "proof", []Chore{c.chore}, strings.Fields(c.args), io.Discard,
				&said); code != c.code {
				t.Errorf("the exit code is %d, want %d", code, c.code)
			}
			if !strings.Contains(said.String(), c.says) || c.says == "" && said.Len() > 0 {
				t.Errorf("it says %q, want %q", said.String(), c.says)
			}
		})
	}
}
