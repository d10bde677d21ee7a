package txworktest

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/txwork/txwork/workqueue"
)

// Limits of what a failed assertion shows.
const (
	shownRows  = 20
	shownBytes = 200
)

// describe shows the rows of a table, for the message of a failed assertion.
func describe(rows []Row, spec workqueue.Spec) string {
	if len(rows) == 0 {
		return spec.Name() + " is empty"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s has %s:", spec.Name(), count(len(rows)))
	for i, r := range rows {
		if i == shownRows {
			fmt.Fprintf(&b, "\n  … and %d more", len(rows)-i)
			break
		}
		b.WriteString("\n  " + line(r, spec))
	}
	return b.String()
}

func count(n int) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}

// line shows a row on one line.
func line(r Row, spec workqueue.Spec) string {
	var b strings.Builder
	b.WriteString(r.ID.String())
	for _, name := range tellingColumns(spec) {
		if text := r.Text(name); text != "" {
			fmt.Fprintf(&b, " %s=%q", name, text)
		}
	}
	state := r.Status.String()
	if r.Waiting {
		state += ", waiting"
	}
	fmt.Fprintf(&b, " (%s, attempt %d of %d)", state, r.Attempts, r.MaxAttempts)
	if payload := r.Payload(); len(payload) > 0 {
		b.WriteString(" payload " + show(payload))
	}
	if len(r.Headers) > 0 {
		fmt.Fprintf(&b, " headers %v", r.Headers)
	}
	if r.LastError != "" {
		fmt.Fprintf(&b, " error %q", short(r.LastError))
	}
	return b.String()
}

// show formats a value for people: bytes that are valid UTF-8 are shown as text.
func show(v any) string {
	switch v := v.(type) {
	case []byte:
		if utf8.Valid(v) {
			return short(string(v))
		}
		return short(fmt.Sprintf("%x", v))
	case string:
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprint(v)
}

func short(s string) string {
	if len(s) <= shownBytes {
		return s
	}
	return strings.ToValidUTF8(s[:shownBytes], "") + "…"
}
