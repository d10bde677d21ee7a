//go:build unix

package torture

import (
	"context"
	"strings"
)

// grantAll gives a role all rights on what the run has made, and creates the role first if need be.
func (l *lab) grantAll(ctx context.Context, role string) error {
	_, err := l.admin.Exec(ctx, strings.NewReplacer("{role}", role, "{schema}", l.schema).Replace(`
		DO $$ BEGIN
			IF to_regrole('{role}') IS NULL THEN CREATE ROLE {role}; END IF;
		END $$;
		GRANT USAGE ON SCHEMA {schema} TO {role};
		GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role};
		GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {role};
		GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role};
		GRANT EXECUTE ON ALL PROCEDURES IN SCHEMA {schema} TO {role}`))
	return err
}

// inRole lets the sessions of a process work in a role.
func inRole(role string) func(*setup) {
	return func(s *setup) { s.Parameters = map[string]string{"role": role} }
}
