package input_test

import (
	"testing"
	"time"

	"github.com/txwork/txwork/internal/input"
)

func TestDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0s": 0, "90m": 90 * time.Minute, "7d": 7 * 24 * time.Hour, "2w": 14 * 24 * time.Hour,
		"3650d": input.MaxDuration,
	} {
		if got, err := input.Duration(text); err != nil || got != want {
			t.Errorf("%s is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "-1d", "1.5d", "3651d", "65535w", "1y", "7", "-5m", "1000000h"} {
		if got, err := input.Duration(text); err == nil {
			t.Errorf("%q is accepted as %v", text, got)
		}
	}
}
