package header

import (
	"maps"
	"slices"
	"strings"
)

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
