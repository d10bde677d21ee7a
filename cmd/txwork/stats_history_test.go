package main

import (
	"strings"
	"testing"
)

// historyOf is a history of a table: seven rows of two queues, five minutes ago, and three an hour before.
func historyOf(table string) string {
	return `INSERT INTO {schema}.history_flush SELECT '` + table + `', 1, n, q, now() - ago * interval '1 minute', done, 1, 0, 0, 0,
			0, '{0,0,0,0,2}', '{3}'
		FROM (VALUES (1, 'default', 5, 4), (2, 'mail', 5, 3), (3, 'mail', 65, 3)) AS f (n, q, ago, done);
		SELECT {schema}.history_merge('{` + table + `}', 10, '{2}', '{1}')`
}

func TestStatsSince(t *testing.T) {
	c := newMigratedCLI(t)
	c.exec(historyOf("jobs"))
	for since, want := range map[string][]string{
		"30m": {"jobs", "-", "7", "2", "1", "0", "0", "0", "2", "4ms", "4ms", "1ms", "1ms"},
		"2h":  {"jobs", "-", "10", "3", "1", "0", "0", "0", "2", "4ms", "4ms", "1ms", "1ms"},
		"24h": {"jobs", "-", "10", "3", "1", "0", "0", "0", "2", "4ms", "4ms", "1ms", "1ms"},
	} {
		out := c.run("stats", "--since", since).ok().stdout
		found := false
		for line := range strings.Lines(out) {
			found = found || strings.Join(strings.Fields(line), " ") == strings.Join(want, " ")
		}
		if !found || !strings.Contains(out, "mail") || !strings.Contains(out, "Since 20") {
			t.Errorf("--since %s:\n%s\nwant the line %v", since, out, want)
		}
	}
	if out := c.run("stats", "outbox", "--since", "24h").ok().stdout; !strings.Contains(out, "No history") {
		t.Errorf("without any:\n%s", out)
	}
	// A lane may have been written with longer waits than the whole table.
	c.exec("UPDATE {schema}.history SET waits = array_fill(0::bigint, ARRAY[40]) || 9::bigint WHERE lane = 'mail'")
	if out := c.run("stats", "--since", "24h").ok().stdout; !strings.Contains(out, "17m28.576s") ||
		!strings.Contains(out, " 4ms ") {
		t.Errorf("with a lane of long waits:\n%s", out)
	}
	c.exec("DROP TABLE {schema}.history")
	if out := c.run("stats", "--since", "24h").ok().stdout; !strings.Contains(out, "No history") {
		t.Errorf("without the table:\n%s", out)
	}
}
