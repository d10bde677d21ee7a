package webui_test

import (
	"net/http"
	"testing"
)

// Whoever writes past the library can store texts of any length. Neither a list nor a row reads them whole, and both
// say how long they are.
func TestLongTextsAreReadInPart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.exec(`ALTER TABLE {schema}.postcards ADD COLUMN stamps text[], ADD COLUMN weight numeric(10, 2)`)
	const long = 3_000_000
	id := s.id(`INSERT INTO {schema}.postcards (address, stamps, weight, status, attempts, completed_at, failed_at,
			last_error, headers)
		VALUES (repeat('a', $1::int), array_fill('s'::text, ARRAY[$1::int / 4]), 12.50, 3, 1, now(), now(),
			repeat('é', $1::int / 2), jsonb_build_object('h', repeat('h', $1::int))) RETURNING id`, long)
	short := s.id(`INSERT INTO {schema}.postcards (address, stamps, weight) VALUES ('here', '{a,b}', 0.05) RETURNING id`)
	for _, path := range []string{"/t/postcards/failed", "/t/postcards/row/" + id} {
		if body := s.shows(path, http.StatusOK); len(body) > 300_000 {
			t.Errorf("%s has %d bytes", path, len(body))
		}
	}
	s.shows("/t/postcards/row/"+id, http.StatusOK, "... (3000000 bytes)", "aaa…</bdi>", "s,s,…</bdi>", "12.50",
		"The rest is left out")
	s.shows("/t/postcards/row/"+short, http.StatusOK, "here", "0.05", `[&#34;a&#34;,&#34;b&#34;]`)
}
