package postgres

import (
	"errors"
	"strings"
	"testing"
)

// A pqError is an error as lib/pq has them.
type pqError struct{ state, text string }

func (e pqError) Error() string    { return "pq: " + e.text }
func (e pqError) SQLState() string { return e.state }

// The remedy does not depend on the driver that the application uses.
func TestErrorsOfOtherDriversAreExplained(t *testing.T) {
	t.Parallel()
	s := Sentinels{ReadOnly: errors.New("read-only"), PoolMode: errors.New("pooler"),
		SchemaVersion: errors.New("schema")}
	for _, c := range []struct {
		err    pqError
		is     error
		remedy string
	}{
		{pqError{"42P01", `relation "txwork.outbox" does not exist`}, s.SchemaVersion,
			"run `txwork migrate up --domain outbox`"},
		{pqError{"42883", "function txwork.jobs_enqueue(text) does not exist"}, s.SchemaVersion,
			"run `txwork migrate up --domain jobs`"},
		{pqError{"3F000", `schema "shop" does not exist`}, s.SchemaVersion, "run `txwork migrate up --schema shop`"},
		{pqError{"26000", `prepared statement "s1" does not exist`}, s.PoolMode, "default_query_exec_mode"},
		{pqError{"25006", "cannot execute INSERT in a read-only transaction"}, s.ReadOnly, "connect to the primary"},
		{pqError{"23505", "duplicate key value"}, nil, ""},
	} {
		got := s.Explain(c.err)
		switch {
		case c.is == nil && got != error(c.err):
			t.Errorf("%v became %v", c.err, got)
		case c.is != nil && (!errors.Is(got, c.is) || !errors.Is(got, c.err) ||
			!strings.Contains(got.Error(), c.remedy)):
			t.Errorf("%v became %v, want the remedy %s", c.err, got, c.remedy)
		}
	}
	if plain := errors.New("plain"); s.Explain(plain) != plain || s.Explain(nil) != nil {
		t.Error("an error without a state is not as it was")
	}
}
