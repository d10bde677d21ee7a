package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/migrations"
)

// listDomains returns domains as text.
func listDomains[T ~string](domains []T) string {
	names := make([]string, len(domains))
	for i, d := range domains {
		names[i] = string(d)
	}
	return strings.Join(names, ", ")
}

// rolesOfSchema narrows the options to the domains that the schema has, if the command line names neither domains nor
// tables, and says which are left out: the SQL of their rights would fail. Without a database, and before anything was
// migrated, nothing is known of the schema.
func (a *app) rolesOfSchema(ctx context.Context, o migrations.RoleOptions) (migrations.RoleOptions, error) {
	if len(o.Domains) > 0 || len(o.Tables) > 0 || a.url() == "" {
		return o, nil
	}
	err := a.withMigrator(ctx, migrations.Options{}, func(m *migrations.Migrator) error {
		has, missing, err := m.Domains(ctx)
		if err != nil {
			return err
		}
		switch {
		case len(has) == 0 || slices.Equal(has, migrations.DefaultDomains()):
		case slices.Contains(missing, migrations.Reaper):
			return fmt.Errorf("the schema has %s, but not reaper, which every process needs: %s", listDomains(has),
				postgres.Migrate(a.schema, "leader"))
		default:
			if o.Domains = has; len(missing) > 0 {
				fmt.Fprintf(a.stderr, "txwork: left out the domains that the schema does not have: %s\n",
					listDomains(missing))
			}
		}
		return nil
	})
	return o, err
}

// warnOfNeeds says which domains migrations for other tools do not have, although those that they have need them.
func (a *app) warnOfNeeds(what string, needs []migrations.Domain) {
	if len(needs) > 0 {
		all := listDomains(needs)
		fmt.Fprintf(a.stderr, "txwork: %s without %s, which the others need: once for each schema, run this with --domain %s\n",
			what, all, strings.ReplaceAll(all, ", ", " --domain "))
	}
}
