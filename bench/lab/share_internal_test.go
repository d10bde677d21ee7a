//go:build unix

package lab

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/txwork/txwork/bench/protocol"
)

func TestProcessesThatShareTheWorkAreAddedUp(t *testing.T) {
	s := newShare(5)
	before := time.Now()
	for _, script := range []string{
		`echo '{"event":"progress","jobs":1}'; echo '{"event":"progress","jobs":3}'; cat`,
		`echo '{"event":"progress","jobs":2}'; cat`,
	} {
		p, err := start(t.Context(), shell(script), protocol.Work, protocol.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, err := p.stop(); err != nil {
				t.Error(err)
			}
		}()
		go s.follow(p)
	}
	if begun, err := s.wait(t.Context()); err != nil || begun.Before(before) {
		t.Errorf("begun %v, %v", begun, err)
	}
}

func TestAProcessThatEndsEarlyEndsTheWait(t *testing.T) {
	s := newShare(5)
	p, err := start(t.Context(), shell(`echo '{"event":"progress","jobs":4}'`), protocol.Work, protocol.Config{})
	if err != nil {
		t.Fatal(err)
	}
	go s.follow(p)
	if _, err := s.wait(t.Context()); !errors.Is(err, errEndedEarly) {
		t.Errorf("error %v, want that it ended early", err)
	}
	if _, err := p.stop(); err != nil {
		t.Error(err)
	}
}

func TestTheWaitForAShareEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newShare(1).wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that it was canceled", err)
	}
}
