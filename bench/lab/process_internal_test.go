//go:build unix

package lab

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/bench/protocol"
)

// shell makes a peer from a shell script, which finds the phase in $0.
func shell(script string) []string { return []string{"sh", "-c", script} }

func TestAPhaseEndsWithItsEvent(t *testing.T) {
	e, _, err := do(t.Context(), shell(`[ "$0" = fill ] && echo '{"event":"filled","jobs":3,"seconds":2}'`),
		protocol.Fill, protocol.Config{}, protocol.Filled)
	if err != nil || e.Jobs != 3 || e.Seconds != 2 {
		t.Errorf("do = %+v, %v", e, err)
	}
}

func TestAPeerReadsItsConfig(t *testing.T) {
	e, _, err := do(t.Context(), shell(`echo '{"event":"peer","name":"'$(echo "$BENCH_CONFIG" | tr -dc 0-9)'"}'`),
		protocol.Describe, protocol.Config{}, protocol.Described)
	if err != nil || e.Name != "000000000" { // nine numbers
		t.Errorf("the peer saw %q, %v", e.Name, err)
	}
}

func TestAPeerThatBreaksTheProtocolFails(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"exit code":     {"echo 'no such table' >&2; exit 3", "no such table"},
		"no event":      {"true", `ended before the event "filled"`},
		"wrong event":   {`echo '{"event":"started"}'`, `in the place of "filled"`},
		"log on stdout": {"echo hello", `"hello" is not an event`},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := do(t.Context(), shell(c.script), protocol.Fill, protocol.Config{}, protocol.Filled)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestStopClosesStandardInput(t *testing.T) {
	p, err := start(t.Context(), shell(`echo '{"event":"started"}'; cat; exit 0`), protocol.Work, protocol.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.await(protocol.Started); err != nil {
		t.Error(err)
	}
	if _, err := p.stop(); err != nil {
		t.Error(err)
	}
}

func TestAnInterruptEndsThePeerAndItsChildren(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := start(ctx, shell(`echo '{"event":"started"}'; sleep 600`), protocol.Work, protocol.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.await(protocol.Started); err != nil {
		t.Error(err)
	}
	begun := time.Now()
	cancel()
	if _, err := p.wait(); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want that it was ended", err)
	}
	if took := time.Since(begun); took >= stopLimit {
		t.Errorf("it took %v: the sleep kept it alive", took)
	}
}
