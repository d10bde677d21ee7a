package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/migrations"
)

// An absence is what the doctor says about the domains that it did not examine.
type absence struct{ Absent []migrations.Domain }

// A schema with some of the domains is judged by these, also if it does not record them, and one line names the others.
func TestASchemaIsJudgedByTheDomainsThatItHas(t *testing.T) {
	t.Parallel()
	others := []migrations.Domain{migrations.Outbox, migrations.Inbox, migrations.Timers, migrations.Alarms}
	for name, harm := range map[string]struct{ statement, validate string }{
		"recorded":          {"SELECT", "note: it does not have the domains outbox, inbox, timers, alarms\n"},
		"without domains":   {"DROP TABLE schema_domain", "schema_domain is missing"},
		"no domain written": {"DELETE FROM schema_domain", "note: it does not have the domains outbox"},
		"without versions":  {"DROP TABLE schema_version", "migration 006_jobs is not recorded"},
		"without records":   {"DROP TABLE schema_version, schema_domain", "migration 006_jobs is not recorded"},
	} {
		t.Run(name, func(t *testing.T) {
			c := having(migrations.Reaper, migrations.Jobs)(t)
			c.exec(harm.statement)
			r := c.run("migrate", "validate").prints(harm.validate, "t have the domains outbox, inbox, timers, alarms")
			for _, foreign := range []string{"outbox_", "inbox_", "timers_", "001_", "005_"} {
				if strings.Contains(r.stdout, foreign) {
					t.Errorf("%s is compared:\n%s", foreign, r.stdout)
				}
			}
			if v := decode[validated](c.run("migrate", "validate", "--json")); !slices.Equal(v.Absent, others) {
				t.Errorf("absent are %v", v.Absent)
			}
			r = c.doctor().prints("\nnot in the schema: outbox, inbox, timers, alarms\n")
			if strings.Contains(r.stdout, "outbox_") || strings.Contains(r.stdout, "001_") {
				t.Errorf("the outbox is examined:\n%s", r.stdout)
			}
			if e := decode[absence](c.doctor("--json")); !slices.Equal(e.Absent, others) {
				t.Errorf("absent are %v", e.Absent)
			}
		})
	}
}

// Nothing of the six domains is listed where none of them is.
func TestASchemaWithoutDomains(t *testing.T) {
	c := newCLI(t)
	c.createTable(own)
	r := c.run("migrate", "validate").exits(exitFailure)
	if want := "-- schema " + c.db.Schema + " has none of the domains outbox, reaper, inbox, timers, alarms, jobs: " +
		"run `txwork migrate up --schema " + c.db.Schema + "`, with --domain for some of them\n"; r.stdout != want {
		t.Errorf("it prints %q, want %q", r.stdout, want)
	}
	c.run("migrate", "validate", "--domain", "jobs").exits(exitFailure).prints("006_jobs is pending", "002_reaper")
	if e := decode[absence](c.doctor("--json")); len(e.Absent) != 0 {
		t.Errorf("%+v", e)
	}
	c.run("migrate", "up").ok()
	c.run("migrate", "validate").ok()
}

// The roles of a schema with some of the domains can be made as printed; what was named is printed in any case.
func TestRolesOfTheDomainsThatASchemaHas(t *testing.T) {
	owned := having(migrations.Jobs)(t)
	c := owned.as("GRANT USAGE ON SCHEMA {schema} TO {role}",
		"GRANT SELECT ON {schema}.schema_version, {schema}.schema_domain TO {role}")
	r := c.run("roles").ok().prints(`"jobs"`, `"leader"`).says(
		"left out the domains that the schema does not have: outbox, inbox, timers, alarms\n")
	if strings.Contains(r.stdout, "outbox") {
		t.Error("the outbox is among them")
	}
	owner := *c
	owner.url = owned.url
	owner.runPrinted("txwork roles --schema " + c.db.Schema)
	c.run("roles", "--domain", "outbox").ok().prints(`"outbox"`).quiet()
	c.run("roles", "--table", "invoices").ok().quiet()

	execute(t, t.Context(), nil, nil, "roles").ok().prints(`"outbox"`, `"jobs"`).quiet()
	c.run("roles", "--prefix", "").exits(exitUsage)
}

// A schema whose own tool left out the reaper is told so: the SQL of the roles, for one, would fail.
func TestRolesWithoutTheReaper(t *testing.T) {
	c := newCLI(t)
	text, err := migrations.SQL(migrations.FileOptions{Schema: c.db.Schema,
		Domains: []migrations.Domain{migrations.Jobs}})
	must(t, err)
	c.exec(text)
	c.run("roles").exits(exitFailure).says("but not reaper", "txwork migrate up --domain reaper --schema "+c.db.Schema)
	c.run("migrate", "up", "--domain", "reaper").ok()
	c.run("roles").ok().says("left out")
}

// Files and SQL that lack what their domains need say so, and how to get it.
func TestExportSaysWhatItLacks(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "m")
	export := func(args ...string) result {
		t.Helper()
		return execute(t, t.Context(), nil, nil, append([]string{"migrate", "export", dir}, args...)...).ok()
	}
	const lacks = " is without reaper, which the others need: once for each schema, run this with --domain reaper\n"
	export("--domain", "jobs").says("txwork: " + dir + lacks)
	export("--domain", "jobs", "--json").says(dir + lacks)
	export("--domain", "reaper").quiet()
	export("--domain", "jobs").quiet()
	export("--domain", "alarms").says(" is without timers,")
	export("--domain", "timers").quiet()

	goose := filepath.Join(dir, "goose")
	execute(t, t.Context(), nil, nil, "migrate", "export", "--format", "goose", "--domain", "outbox", "--first", "7",
		goose).ok().says(goose + lacks)
	execute(t, t.Context(), nil, nil, "migrate", "export", "--format", "goose", "--domain", "reaper",
		goose).ok().quiet()
	execute(t, t.Context(), nil, nil, "migrate", "sql", "--domain", "outbox").ok().says("this" + lacks)
	execute(t, t.Context(), nil, nil, "migrate", "sql").ok().quiet()
}

// Who may not read what a schema records is told which right is missing.
func TestValidateNamesTheMissingRight(t *testing.T) {
	c := having(migrations.Jobs)(t)
	weak := c.as()
	role := `role "` + c.weakRole() + `" needs `
	for _, right := range []struct{ missing, grant string }{
		{"USAGE on schema " + c.db.Schema, "GRANT USAGE ON SCHEMA {schema} TO " + c.weakRole()},
		{"SELECT on table " + c.db.Schema + ".schema_version", "GRANT SELECT ON {schema}.schema_version TO " +
			c.weakRole()},
		{"SELECT on table " + c.db.Schema + ".schema_domain", "GRANT SELECT ON {schema}.schema_domain TO " +
			c.weakRole()},
	} {
		for _, command := range []string{"validate", "status"} {
			weak.run("migrate", command).exits(exitFailure).says(role + right.missing)
		}
		weak.run("roles").exits(exitFailure).says(role + right.missing)
		c.exec(right.grant)
	}
	weak.run("migrate", "validate").ok()
}
