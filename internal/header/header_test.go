package header_test

import (
	"maps"
	"testing"

	"github.com/txwork/txwork/internal/header"
)

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
