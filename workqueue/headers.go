package workqueue

import "encoding/json"

// encodeHeaders merges the trace context under the caller's own headers, which win.
func encodeHeaders(own, trace map[string]string) (string, error) {
	if len(own)+len(trace) == 0 {
		return "", nil
	}
	all := make(map[string]string, len(own)+len(trace))
	for k, v := range trace {
		all[k] = v
	}
	for k, v := range own {
		all[k] = v
	}
	encoded, err := json.Marshal(all)
	return string(encoded), err
}

// ReadHeaders are a row's headers as a claim returns them, for domains that read rows by themselves. Encoded is the column
// as text, nil for NULL. It never fails: a row with headers that somebody wrote by hand still has to be delivered. A value
// that is no string is given as its JSON text, and headers that are no object are none.
func ReadHeaders(encoded *string) map[string]string {
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
			_ = json.Unmarshal(v, &s) // it was parsed above
		}
		headers[k] = s
	}
	return headers
}
