package main

import (
	"bytes"
	"encoding/json"
	"testing"
)

// A line becomes a message unchanged, with the keys that any JSON reader would find in it, or it is refused.
func FuzzMessageOfLine(f *testing.F) {
	for _, text := range []string{
		`{"k": "a", "d": 7}`, `{"k": -1.50e3, "d": "\u0000"}`, `{"k": "", "d": "x"}`, `{"k": null}`,
		`{"k": ["a"], "d": {}}`, `{"k": "a", "k": "b", "d": "c"}`,
		`{"K": "a", "d": "\ud800"}`, `null`, `[]`, `{`, `"k"`, ` { "k" : "é" , "d" : 1e400 } `,
		"{\"k\": \"\xff\", \"d\": true}",
	} {
		f.Add([]byte(text), "k", "d")
	}
	f.Fuzz(func(t *testing.T, text []byte, keyField, dedupField string) {
		s := &sender{sendOptions: sendOptions{topic: "t", keyField: keyField, dedupField: dedupField}}
		m, err := s.message(line{number: 1, text: text})
		if err != nil {
			return
		}
		if !bytes.Equal(m.Payload, text) {
			t.Fatalf("the payload of %q is %q", text, m.Payload)
		}
		for _, part := range []struct{ field, got string }{{keyField, m.Key}, {dedupField, m.DedupKey}} {
			if want := fieldAsText(t, text, part.field); part.got != want {
				t.Fatalf("field %q of %q is %q, want %q", part.field, text, part.got, want)
			}
		}
	})
}

// fieldAsText reads a field without the code under test.
func fieldAsText(t *testing.T, text []byte, field string) string {
	if field == "" {
		return ""
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var fields map[string]any
	if err := d.Decode(&fields); err != nil {
		t.Fatalf("%q became a message: %v", text, err)
	}
	switch v := fields[field].(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	default:
		t.Fatalf("field %q of %q is %v, and became a key", field, text, v)
		return ""
	}
}
