package workqueue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/txwork/txwork/internal/postgres"
)

// The plan settings hold for one transaction or, where that is the caller's, for one statement. They
// are set by set_config and not by SET, so that they can share a round trip and a pooler's connection.
var (
	pinSets = eachSetting(planSettings, setSetting)
	pinText = "SELECT " + pinSets
	lazySet = setSetting("synchronous_commit", "off")

	// The settings are read in a materialised part, so before they are changed.
	// Settles need the triggers of their tables.
	savePinText = "WITH b AS MATERIALIZED (SELECT " + eachSetting(callerSettings, readSetting) +
		" WHERE " + postgres.RunsTriggers + ")" +
		" SELECT b.*, " + eachSetting(callerSettings, setSetting) + " FROM b"
)

// A setting is one of PostgreSQL's parameters with the value that it is to have.
type setting struct{ name, value string }

// textSettings pin how values travel as text, on which drivers' parsers rely: through pgx's modes exec and
// simple_protocol, and through many drivers of database/sql. A session may have others, by its role or its database.
var textSettings = []setting{
	{"bytea_output", "hex"},
	{"datestyle", "ISO"},
	{"intervalstyle", "postgres"},
	{"extra_float_digits", "1"},
	{"array_nulls", "on"}, // for the arrays that we send
}

// callerSettings are the settings for statements in a transaction of the caller, whose driver we do not know.
var callerSettings = slices.Concat(planSettings, textSettings)

func eachSetting(settings []setting, render func(name, value string) string) string {
	parts := make([]string, len(settings))
	for i, s := range settings {
		parts[i] = render(s.name, s.value)
	}
	return strings.Join(parts, ", ")
}

func readSetting(name, _ string) string {
	return fmt.Sprintf("pg_catalog.current_setting('%s') AS %s", name, name)
}

func setSetting(name, value string) string {
	return fmt.Sprintf("pg_catalog.set_config('%s', '%s', true)", name, value)
}

// pinCall sets our settings in the caller's transaction, and saves the caller's in before.
func pinCall(before *[]string) call {
	return call{
		statement: statement{name: "pin", text: savePinText},
		row: func(scan func(...any) error) error {
			values := make([]string, 2*len(callerSettings))
			dest := make([]any, len(values))
			for i := range values {
				dest[i] = &values[i]
			}
			*before = values[:len(callerSettings)]
			return scan(dest...)
		},
	}
}

// unpinCall restores the settings that pinCall found in the caller's transaction.
func unpinCall(before []string) call {
	c := call{args: map[string]any{}}
	c.name = "unpin"
	sets := make([]string, len(callerSettings))
	for i, s := range callerSettings {
		sets[i] = fmt.Sprintf("pg_catalog.set_config('%s', $%d::pg_catalog.text, true)", s.name, i+1)
		c.params = append(c.params, s.name)
		c.args[s.name] = before[i]
	}
	c.text = "SELECT " + strings.Join(sets, ", ")
	return c
}
