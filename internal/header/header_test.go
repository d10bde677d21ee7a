package header_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/txwork/txwork/internal/header"
)

// A row that gets the headers of another does not get its history.
func TestAHistoryIsNotCopied(t *testing.T) {
	t.Parallel()
	own := map[string]string{"a": "b", "txwork-lost-alone": "2", "txwork-lost-at": "2026-01-01T00:00:00Z",
		"txwork-batch": "kept"}
	got, err := header.Encode(own, map[string]string{"traceparent": "t"})
	if want := `{"a":"b","traceparent":"t","txwork-batch":"kept"}`; err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if len(own) != 4 {
		t.Errorf("the caller's headers were changed: %v", own)
	}
	got, err = header.Encode(map[string]string{"txwork-lost-together": "5"}, nil)
	if err != nil || got != "" {
		t.Errorf("got %s, %v, want no headers", got, err)
	}
}

// Headers that were written by hand are read as far as possible.
func TestRead(t *testing.T) {
	t.Parallel()
	for encoded, want := range map[string]map[string]string{
		`{"a": "b", "quoted": "\"x\"\u00e9"}`: {"a": "b", "quoted": `"x"é`},
		`{"n": 7, "none": null, "on": true, "o": {"a": [1, "b"]}}`: {"n": "7", "none": "null", "on": "true",
			"o": `{"a": [1, "b"]}`},
		`{}`:       {},
		`[1]`:      nil,
		`"text"`:   nil,
		`null`:     nil,
		`not JSON`: nil,
	} {
		if got := header.Read(&encoded); !maps.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s: %#v, want %#v", encoded, got, want)
		}
	}
	if got := header.Read(nil); got != nil {
		t.Errorf("NULL: %#v", got)
	}
}

// Names are compared as in HTTP, and the answer never depends on the order of a map.
func TestGet(t *testing.T) {
	t.Parallel()
	headers := map[string]string{"Traceparent": "b", "TRACEPARENT": "a", "exact": "c", "Exact": "d"}
	for name, want := range map[string]string{
		"traceparent": "a", "Traceparent": "b", "exact": "c", "EXACT": "d", "x": "",
	} {
		for range 20 {
			if got, found := header.Get(headers, name); got != want || found != (name != "x") {
				t.Errorf("%s: got %q, %v, want %q", name, got, found, want)
			}
		}
	}
	if got := header.Carrier(headers).Get("traceParent"); got != "a" {
		t.Errorf("a propagator reads %q, want a", got)
	}
}

func TestOwnHeadersOverrideTheTrace(t *testing.T) {
	t.Parallel()
	encoded, err := header.Encode(map[string]string{"Traceparent": "own", "k": "v"},
		map[string]string{"traceparent": "of the context", "tracestate": "s"})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(encoded), &got); err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"Traceparent": "own", "k": "v", "tracestate": "s"}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
