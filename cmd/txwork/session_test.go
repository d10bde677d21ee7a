package main

import (
	"net/url"
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
)

// Commands that claim, write or rely on triggers refuse a session in which SQL does not mean what it says. Those that
// look for trouble, or make the schema, do not depend on it.
func TestASessionThatDoesNotFitIsRefused(t *testing.T) {
	c, clock := newMigratedCLI(t), pgtest.New(t)
	clock.Define(t, "CREATE FUNCTION now() RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz'")
	for setting, value := range map[string]string{
		"session_replication_role": "replica",
		"search_path":              clock.Schema + ", pg_catalog",
	} {
		unfit := c.in(t)
		address, err := url.Parse(c.url)
		must(t, err)
		q := address.Query()
		q.Set(setting, value)
		address.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
		unfit.url = address.String()
		for _, command := range [][]string{{"stats"}, {"reap"}, {"list", "outbox", "--status", "failed"},
			{"purge", "outbox", "--done-older-than", "1h"}} {
			unfit.run(command...).exits(exitFailure).says(setting + " is ")
		}
		unfit.run("migrate", "validate").ok()
		unfit.run("migrate", "up").ok()
	}
}
