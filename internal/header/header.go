// Package header encodes and decodes the stored headers of rows.
package header

import (
	"encoding/json"
	"maps"
)

// Encode merges the trace context into the caller's own headers. A header of the caller's overrides one of the trace,
// in whatever case its name is written.
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
