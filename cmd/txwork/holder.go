package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/txwork/txwork/internal/operate"
)

// briefHolder names a process on one line of a table.
func briefHolder(h *operate.Holder) string {
	if h == nil {
		return "-"
	}
	return dashedName(h.Host) + " (" + harmless(h.Language) + ")"
}

// holderText says what is known of a process.
func holderText(h *operate.Holder) string {
	if h == nil {
		return "- (its process does not say that it runs)"
	}
	var serves []string
	for _, one := range h.Serves {
		serves = append(serves, harmless(string(one)))
	}
	return fmt.Sprintf("%s, %s, version %s, which said so %s ago, and that it serves %s", harmless(h.Host),
		harmless(h.Language), harmless(h.Version), rough(seconds(h.Beat)),
		cmp.Or(strings.Join(serves, ", "), "nothing"))
}
