package conn

import (
	"fmt"
	"slices"
	"strings"

	"github.com/txwork/txwork/internal/postgres"
)

// The plan settings hold for one transaction or, where that is the caller's, for one statement. They
// are set by set_config and not by SET, so that they can share a round trip and a pooler's connection.
var (
	PinSets = Each(PlanSettings, SetLocal)
	lazySet = SetLocal("synchronous_commit", "off")

	// The settings are read in a materialised part, so before they are changed.
	// Settles need the triggers of their tables.
	savePinText = "WITH b AS MATERIALIZED (SELECT " + Each(callerSettings, readSetting) +
		" WHERE " + postgres.RunsTriggers + ")" +
		" SELECT b.*, " + Each(callerSettings, SetLocal) + " FROM b"
)

// A Setting is one of PostgreSQL's parameters with the value that it is to have.
type Setting struct{ Name, Value string }

// PlanSettings pin the plans of the core's statements: each has exactly one good plan, an index or TID
// scan with a nested loop or a hash, and a plan made while the table was empty would otherwise be kept.
var PlanSettings = []Setting{
	{"enable_seqscan", "off"},
	{"enable_bitmapscan", "off"},
	{"enable_sort", "off"},
	{"enable_hashjoin", "on"},
	{"enable_mergejoin", "off"},
	{"enable_indexscan", "on"},
	{"enable_nestloop", "on"},
	{"enable_tidscan", "on"},
	{"jit", "off"},
	{"plan_cache_mode", "force_generic_plan"}, // otherwise a claim, whose limit is a parameter, is planned every time
}

// textSettings pin how values travel as text, on which drivers' parsers rely: through pgx's modes exec and
// simple_protocol, and through many drivers of database/sql. A session may have others, by its role or its database.
var textSettings = []Setting{
	{"bytea_output", "hex"},
	{"datestyle", "ISO"},
	{"intervalstyle", "postgres"},
	{"extra_float_digits", "1"},
	{"array_nulls", "on"}, // for the arrays that we send
}

// callerSettings are the settings for statements in a transaction of the caller, whose driver we do not know.
var callerSettings = slices.Concat(PlanSettings, textSettings)

// Each renders each of the settings, separated by commas.
func Each(settings []Setting, render func(name, value string) string) string {
	parts := make([]string, len(settings))
	for i, s := range settings {
		parts[i] = render(s.Name, s.Value)
	}
	return strings.Join(parts, ", ")
}

func readSetting(name, _ string) string {
	return fmt.Sprintf("pg_catalog.current_setting('%s') AS %s", name, name)
}

// SetLocal sets a setting for the transaction, in a SELECT.
func SetLocal(name, value string) string {
	return fmt.Sprintf("pg_catalog.set_config('%s', '%s', true)", name, value)
}

// pinCall sets our settings in the caller's transaction, and saves the caller's in before.
func pinCall(before *[]string) Call {
	return Call{
		Statement: Statement{Name: "pin", Text: savePinText},
		Row: func(scan func(...any) error) error {
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
func unpinCall(before []string) Call {
	c := Call{Args: map[string]any{}}
	c.Name = "unpin"
	sets := make([]string, len(callerSettings))
	for i, s := range callerSettings {
		sets[i] = fmt.Sprintf("pg_catalog.set_config('%s', $%d::pg_catalog.text, true)", s.Name, i+1)
		c.Params = append(c.Params, s.Name)
		c.Args[s.Name] = before[i]
	}
	c.Text = "SELECT " + strings.Join(sets, ", ")
	return c
}

// RunPinned runs the calls one after the other in the caller's transaction, under the plan settings where a call needs
// them, and then restores the caller's own settings.
func RunPinned(calls []Call, one func(Call) error) error {
	for _, c := range calls {
		if c.Unpinned {
			if err := one(c); err != nil {
				return err
			}
			continue
		}
		var before []string
		if err := one(pinCall(&before)); err != nil {
			return err
		}
		if err := one(c); err != nil {
			return err
		}
		if err := one(unpinCall(before)); err != nil {
			return err
		}
	}
	return nil
}

// PinTexts are the statements that save the caller's settings and set ours, and that restore the caller's.
func PinTexts() []string {
	return []string{savePinText, unpinCall(make([]string, len(callerSettings))).Text}
}
