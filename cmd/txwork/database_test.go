package main

import (
	"strings"
	"testing"
)

// It is unclear where an unescaped password begins and ends, so an error quotes nothing of such a URL.
func TestAURLThatIsWrongIsNotTold(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://u:hunter2:hunter2%zz@h/db", "postgres://u:hunter2/hunter2@h/db",
		"postgres://u:hunter2 hunter2@h/db",
		"host=h password=hunter2 hunter2", `host=h password='hunter2\' hunter2' x`, "u:hunter2@h/db",
		"postgres://u:hunter2@hunter2@127.0.0.1:1/db", "postgres://h/db?password=hunter2&connect_timeout=x",
	} {
		for _, command := range []string{"stats", "bench drain"} {
			r := execute(t, t.Context(), nil, nil, append(strings.Fields(command), "--database-url", url)...)
			r.exits(exitUsage).says("the database URL is wrong")
			if strings.Contains(r.stderr, "hunter2") {
				t.Errorf("%s: %s", url, r.stderr)
			}
		}
	}
}
