package doctor

import (
	"context"
	"fmt"

	"github.com/txwork/txwork/internal/postgres"
)

// A stored setting is one with which sessions begin.
type stored struct {
	Name, Value    string
	Everyone       bool // set by ALTER ROLE ALL
	Role, Database string
}

// title says what is set, and for whom.
func (s stored) title() string {
	return fmt.Sprintf("%s is %s %s", s.Name, postgres.Name(s.Value), s.whose())
}

func (s stored) whose() string {
	switch {
	case s.Role != "" && s.Database != "":
		return fmt.Sprintf("for role %s in database %s", postgres.Name(s.Role), postgres.Name(s.Database))
	case s.Role != "":
		return "for role " + postgres.Name(s.Role)
	case s.Database != "":
		return "for database " + postgres.Name(s.Database)
	case s.Everyone:
		return "for all roles"
	}
	return "on the server"
}

func (s stored) evidence() []Evidence {
	return []Evidence{evidence("setting", s.Name, "value", s.Value, "role", s.Role, "database", s.Database)}
}

// alter returns the statements that change the setting where it is stored. change is what follows the object's name,
// such as RESET fsync.
func (s stored) alter(change string) []string {
	switch {
	case s.Role != "" && s.Database != "":
		return []string{fmt.Sprintf("ALTER ROLE %s IN DATABASE %s %s;", quoted(s.Role), quoted(s.Database), change)}
	case s.Role != "":
		return []string{fmt.Sprintf("ALTER ROLE %s %s;", quoted(s.Role), change)}
	case s.Database != "":
		return []string{fmt.Sprintf("ALTER DATABASE %s %s;", quoted(s.Database), change)}
	case s.Everyone:
		return []string{fmt.Sprintf("ALTER ROLE ALL %s;", change)}
	}
	return []string{fmt.Sprintf("ALTER SYSTEM %s;", change), "SELECT pg_reload_conf();"}
}

// reset takes a setting away from a role or database.
func (s stored) reset() Remedy { return Remedy{Do: "Reset it.", SQL: s.alter("RESET " + s.Name)} }

// onServer reports that the server itself has the setting, in a file or on its command line.
func (s stored) onServer() bool { return s.Role == "" && s.Database == "" && !s.Everyone }

func durability(ctx context.Context, x *examination) (all []Finding, err error) {
	list, err := listed[stored](ctx, x, "durability", "settings")
	for _, s := range list {
		f := Finding{Title: s.title(), Evidence: s.evidence(), Remedy: s.reset()}
		if s.onServer() {
			f.Remedy = Remedy{Do: "Turn it on, as a superuser or in your provider's console.",
				SQL: s.alter(fmt.Sprintf("SET %s = on", s.Name))}
		}
		if s.Name == "synchronous_commit" {
			f.Severity = Warning // it can lose the last transactions, but corrupts nothing
		}
		all = append(all, f)
	}
	return all, err
}

// sessionSettings finds what makes workers and commands refuse their sessions, before they begin one.
func sessionSettings(ctx context.Context, x *examination) (all []Finding, err error) {
	type unfit struct {
		stored
		Without string // the search_path without pg_catalog
	}
	list, err := listed[unfit](ctx, x, "session_settings", "settings", x.Schema)
	for _, s := range list {
		f := Finding{Title: s.title(), Evidence: s.evidence(), Remedy: s.reset()}
		if s.Name == "search_path" {
			f.Remedy = Remedy{Do: "Take pg_catalog out of it: PostgreSQL then searches it first.",
				SQL: s.alter("SET search_path = " + s.Without)}
		}
		f.Remedy.Do += " Sessions that are open keep the setting."
		all = append(all, f)
	}
	return all, err
}
