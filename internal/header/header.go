// Package header encodes and decodes the stored headers of rows.
package header

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// The headers in which the database keeps what happened to a row.
const (
	LostAlone    = "txwork-lost-alone"    // how many leases the row lost alone
	LostTogether = "txwork-lost-together" // how many together with others of its process
	LostAt       = "txwork-lost-at"       // when it lost the last one
	LostBeside   = "txwork-lost-beside"   // the token of the process that another row ended, before the lease is reaped
	Running      = "txwork-running"       // since when it ran
	RedrivenBy   = "txwork-redriven-by"
	RedrivenAt   = "txwork-redriven-at"
	Permanent    = "txwork-permanent" // why a message of a log is a dead letter, before its row is one
)

// History lists them. A new row has no history, also if it gets the headers of another, such as of the message whose
// handler writes it.
func History() []string {
	return []string{LostAlone, LostTogether, LostAt, LostBeside, Running, RedrivenBy, RedrivenAt, Permanent}
}

// Encode merges the trace context into the caller's own headers. A header of the caller's overrides one of the trace,
// in whatever case its name is written. What happened to another row is left out.
func Encode(own, trace map[string]string) (string, error) {
	if len(own)+len(trace) == 0 {
		return "", nil
	}
	all := make(map[string]string, len(own)+len(trace))
	for k, v := range trace {
		if _, found := Get(own, k); !found {
			all[k] = v
		}
	}
	maps.Copy(all, own)
	for _, name := range History() {
		delete(all, name)
	}
	if len(all) == 0 {
		return "", nil
	}
	encoded, err := json.Marshal(all)
	return string(encoded), err
}

// Read decodes the column, nil for NULL. It never fails, as package codec explains.
func Read(encoded *string) map[string]string {
	if encoded == nil {
		return nil
	}
	var raw map[string]json.RawMessage
	if json.Unmarshal([]byte(*encoded), &raw) != nil || raw == nil {
		return nil
	}
	headers := make(map[string]string, len(raw))
	for k, v := range raw {
		s := string(v)
		if s[0] == '"' {
			_ = json.Unmarshal(v, &s) // cannot fail: it was parsed above
		}
		headers[k] = s
	}
	return headers
}

// Get returns the header with this name. Names are compared without regard to case, as in HTTP; if several differ only
// in case, it is the one that is spelled like name, or else the first in the order of their bytes.
func Get(headers map[string]string, name string) (value string, found bool) {
	if value, found = headers[name]; found || len(headers) == 0 {
		return value, found
	}
	spelled := ""
	for k := range headers {
		if strings.EqualFold(k, name) && (!found || k < spelled) {
			spelled, found = k, true
		}
	}
	return headers[spelled], found
}

// Carrier lets a propagator of OpenTelemetry read the trace context from headers in any case.
type Carrier map[string]string

// Get returns a header, empty if there is none.
func (c Carrier) Get(name string) string {
	value, _ := Get(c, name)
	return value
}

// Set sets a header.
func (c Carrier) Set(name, value string) { c[name] = value }

// Keys returns the names, sorted.
func (c Carrier) Keys() []string { return slices.Sorted(maps.Keys(c)) }
