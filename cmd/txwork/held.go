package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/operate"
)

// heldText says what holds a row, and how to go on.
func heldText(h *operate.Hold, now time.Time) string {
	name := h.Of + " " + names(given(h.Lane, h.Name)...)
	since := ""
	if h.Since != nil {
		since = " since " + stamp(*h.Since, now)
	}
	if h.Unavailable {
		first, _, _ := strings.Cut(h.Cause, "\n")
		return fmt.Sprintf("the destination of %s is unavailable%s: %s; a message probes it: `%s` shows what runs",
			name, since, first, h.Next)
	}
	if !h.Paused {
		return fmt.Sprintf("%s has no room for more rows: `%s` shows what runs", name, h.Next)
	}
	return fmt.Sprintf("%s is paused%s: `%s` lets it go on", name, since, h.Next)
}
