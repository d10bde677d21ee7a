package operate

import (
	"encoding/json"

	"github.com/txwork/txwork/internal/survey"
)

// A Holder is a process that runs a row, as it says of itself.
type Holder struct {
	ID       string     `json:"id"`                // as its owner tokens begin
	Host     string     `json:"host"`              // the machine or the container, and the process there
	Language string     `json:"language"`          // of the program
	Version  string     `json:"version"`           // of the library
	Serves   []Document `json:"serves"`            // what it serves; of workers in Go, an object for each worker
	Beat     float64    `json:"last_beat_seconds"` // how long ago it said so
}

// HolderOf returns the process of an owner token; nil if none says that it runs.
func HolderOf(processes map[string]survey.Process, token string) *Holder {
	p, ok := processes[survey.ProcessOf(token)]
	if !ok {
		return nil
	}
	return newHolder(p)
}

func newHolder(p survey.Process) *Holder {
	h := &Holder{p.ID, p.Host, p.Language, p.Version, []Document{}, max(p.Beat, 0)}
	var all []json.RawMessage
	_ = json.Unmarshal([]byte(p.Serves), &all) // jsonb, but a role may have written something else than an array
	for _, one := range all {
		h.Serves = append(h.Serves, Document(one))
	}
	return h
}
