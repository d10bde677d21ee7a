package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestMetricsServe(t *testing.T) {
	c := newMigratedCLI(t)
	c.exec("INSERT INTO {schema}.outbox (id, topic, payload, due_at) VALUES (gen_random_uuid(), 'a', '{}', now() - " +
		"interval '1 hour')")
	var stderr output
	stop := c.runUntil(nil, io.Discard, &stderr, "metrics", "serve", "--listen", "127.0.0.1:0", "--timeout", "1m",
		"--statement-timeout", "1m")
	eventually(t, "it serves", func() bool { return servingAt.MatchString(stderr.String()) })
	url := servingAt.FindString(stderr.String())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(method, path string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, url+path, nil)
		must(t, err)
		response, err := client.Do(request)
		must(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		must(t, err)
		return response.StatusCode, string(body)
	}
	status, body := ask("GET", "/metrics")
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	contains(t, "the scrape", body,
		`txwork_queue_depth{messaging_destination_name="`+c.db.Schema+`.outbox",txwork_state="ready"} 1`,
		"\ntxwork_observation_up 1\n", "\ntxwork_observation_skipped 0\n", "# TYPE txwork_queue_age_seconds gauge")
	if status, _ := ask("GET", "/"); status != http.StatusNotFound {
		t.Errorf("GET /: status %d", status)
	}
	if status, _ := ask("POST", "/metrics"); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", status)
	}
	if code := stop(); code != exitOK || strings.Contains(stderr.String(), "level=") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

func TestMetricsServeRefuses(t *testing.T) {
	c := newCLI(t)
	for flag, want := range map[string]string{
		"--timeout=0s":              "--timeout is 0s",
		"--statement-timeout=1s1us": "must be whole milliseconds",
		"--nonsense":                "unknown flag",
	} {
		c.run("metrics", "serve", flag).exits(exitUsage).says(want)
	}
	c.run("metrics", "serve", "--listen", "256.0.0.1:0").exits(exitFailure).says("256.0.0.1")
}
