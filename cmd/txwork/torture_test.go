//go:build unix

package main

import (
	"strings"
	"testing"
)

func TestTortureRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, want, args string }{
		{"fault", `there is no fault "rain"`, "--faults rain"},
		{"schema", "leave out --schema", "--schema mine"},
		{"duration", "too short", "--duration 1ms"},
		{"rows", "cannot be", "--rows -1"},
		{"pause", "cannot be", "--pause -1s"},
		{"workers", "cannot be", "--workers -1"},
		{"database", "database URL is wrong", "--database-url postgres://%"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"torture"}, strings.Fields(c.args)...)
			execute(t, t.Context(), strings.NewReader(""), nil, args...).exits(exitUsage).says(c.want)
		})
	}
}
