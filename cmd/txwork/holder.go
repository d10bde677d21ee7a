package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/txwork/txwork/internal/survey"
)

// A holder is a process that runs a row, as it says of itself.
type holder struct {
	ID       string     `json:"id"`                // as its owner tokens begin
	Host     string     `json:"host"`              // the machine or the container, and the process there
	Language string     `json:"language"`          // of the program
	Version  string     `json:"version"`           // of the library
	Serves   []document `json:"serves"`            // what it serves; of workers in Go, an object for each worker
	Beat     float64    `json:"last_beat_seconds"` // how long ago it said so
}

// holderOf returns the process of an owner token; nil if none says that it runs.
func holderOf(processes map[string]survey.Process, token string) *holder {
	p, ok := processes[survey.ProcessOf(token)]
	if !ok {
		return nil
	}
	h := &holder{p.ID, p.Host, p.Language, p.Version, []document{}, max(p.Beat, 0)}
	var all []json.RawMessage
	_ = json.Unmarshal([]byte(p.Serves), &all) // jsonb, but a role may have written something else than an array
	for _, one := range all {
		h.Serves = append(h.Serves, document(one))
	}
	return h
}

// brief names the process on one line of a table.
func (h *holder) brief() string {
	if h == nil {
		return "-"
	}
	return dashedName(h.Host) + " (" + harmless(h.Language) + ")"
}

// text says what is known of the process.
func (h *holder) text() string {
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
