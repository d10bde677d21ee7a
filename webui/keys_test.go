package webui_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// keyed writes messages of ordered keys: the first of each is a dead letter that blocks its key, runs, or is ready.
func (s *site) keyed(key, first string) (blocker string) {
	s.Helper()
	s.exec(`INSERT INTO {schema}.outbox (topic, concurrency_key, key_limit, key_policy, payload)
		SELECT 'orders', $1, 0, 1, '' FROM generate_series(1, 3)`, key)
	blocker = s.id(`SELECT id FROM {schema}.outbox WHERE concurrency_key = $1 ORDER BY key_seq LIMIT 1`, key)
	s.exec("UPDATE {schema}.outbox SET waiting = false, "+first+" WHERE id = $1", blocker)
	return blocker
}

func TestKeysShowWhatBlocksThem(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.shows("/keys", http.StatusOK, "No row waits for its turn in a key.")
	dead := s.keyed("blocked", "status = 3, attempts = 1, completed_at = now(), failed_at = now(), last_error = 'no route'")
	runs := s.keyed("busy", "status = 1, attempts = 1, owner_token = gen_random_uuid(), locked_until = now() + interval '1 h'")
	s.keyed(evil, "status = status")
	body := s.shows("/keys", http.StatusOK, dead, runs, "Blocked by a dead letter", "no route", "a row that runs",
		"t/outbox/waiting?key=blocked", "outbox unblock ID", "&lt;script&gt;alert")
	if strings.Contains(body, "<script>alert") {
		t.Error("a key runs script")
	}
	body = s.shows("/keys?table=outbox&after=blocked", http.StatusOK, runs)
	if strings.Contains(body, dead) {
		t.Error("the next page begins at the first key")
	}
	s.shows("/keys?table=outbox&after=z", http.StatusOK, "There are no more keys")
	s.shows("/keys?table=jobs_schedule", http.StatusOK, "No table that you see has ordered keys.")
	s.shows("/keys?after=%ff", http.StatusOK, "The address is wrong")
}

func TestKeysArePaged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.exec(`INSERT INTO {schema}.outbox (topic, concurrency_key, key_limit, key_policy, payload)
		SELECT 'orders', to_char(i, 'FM000'), 0, 0, '' FROM generate_series(1, 120) AS i, generate_series(1, 2)`)
	seen, path := 0, "/keys?table=outbox"
	for path != "" {
		body := s.shows(path, http.StatusOK)
		seen += strings.Count(body, "<tr data-key=")
		next := regexp.MustCompile(`rel="next" href="\.(/[^"]*)"`).FindStringSubmatch(body)
		if path = ""; next != nil {
			path = strings.ReplaceAll(next[1], "&amp;", "&")
		}
	}
	if seen != 120 {
		t.Errorf("%d keys are shown, want 120", seen)
	}
}
