package migrations

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/validate"
)

// A Domain is a part of txwork that has tables of its own, and therefore migrations and a version of its own.
type Domain string

// The domains, in the order of their migrations.
const (
	Outbox Domain = "outbox"
	Reaper Domain = "reaper" // the leader, which processes run, the audit; comes with every other domain
	Inbox  Domain = "inbox"
	Timers Domain = "timers"
	Alarms Domain = "alarms" // needs Timers
	Jobs   Domain = "jobs"
	Log    Domain = "log" // an outbox that is a log; only where it is named
)

// Domains returns all domains, in the order of their first migrations.
func Domains() []Domain { return append(DefaultDomains(), Log) }

// DefaultDomains returns the domains that a new schema gets if none is named: all but [Log].
func DefaultDomains() []Domain { return []Domain{Outbox, Reaper, Inbox, Timers, Alarms, Jobs} }

func checkDomains(domains []Domain) error {
	for _, d := range domains {
		if !slices.Contains(Domains(), d) {
			return validate.Errorf("domain", "%q is unknown, there are %s", string(d), domainList(Domains()))
		}
	}
	return nil
}

func domainList(domains []Domain) string {
	names := make([]string, len(domains))
	for i, d := range domains {
		names[i] = string(d)
	}
	return strings.Join(names, ", ")
}

// needed returns the domains together with those that they depend on.
func needed(domains []Domain) []Domain {
	domains = append(slices.Clone(domains), Reaper)
	if slices.Contains(domains, Alarms) {
		domains = append(domains, Timers)
	}
	return domains
}

// Needs returns the domains that those of the options need and that the options leave out.
func (o FileOptions) Needs() []Domain { return lacking(o.Domains) }

func lacking(domains []Domain) []Domain {
	if len(domains) == 0 {
		return nil
	}
	all := needed(domains)
	return slices.DeleteFunc(Domains(), func(d Domain) bool {
		return slices.Contains(domains, d) || !slices.Contains(all, d)
	})
}

// reaperWords begin the names of the reaper's objects, and logTable those of the log's. All other names begin with the
// name of their domain.
var reaperWords = []string{"leader", "process", "owner", "audit", "history", "protocol", "require"}

const logTable = postgres.LogTable

// recordsDomain is what domainOf returns for the tables of versions and domains. It is none of the [Domains].
const recordsDomain Domain = "schema"

// domainOf returns the domain of a table, or of an object whose name begins with its table's.
func domainOf(name string) Domain {
	name, _, _ = strings.Cut(name, "(")
	if postgres.IsLog(name) {
		return Log
	}
	name, _, _ = strings.Cut(name, "_")
	if slices.Contains(reaperWords, name) {
		return Reaper
	}
	return Domain(name)
}

// of returns the migrations of some domains, in their order.
func of(all []migration, domains []Domain) (chosen []migration) {
	for _, m := range all {
		if slices.Contains(domains, m.domain) {
			chosen = append(chosen, m)
		}
	}
	return chosen
}

// wanted returns the domains that the schema is to have: those of the Options, else those that it has, else the default
// ones.
func (m *Migrator) wanted(s state) []Domain {
	switch {
	case len(m.domains) > 0:
		return needed(m.domains)
	case len(s.domains) > 0:
		return s.domains
	case len(s.found) > 0:
		return s.found
	}
	return DefaultDomains()
}

// Domains returns the domains that the schema has, and those of the [DefaultDomains] that it does not have, both in the
// order of [Domains]. It has those that it records or, if it records none, those whose tables exist. Like
// [Migrator.Status] it writes nothing.
func (m *Migrator) Domains(ctx context.Context) (has, absent []Domain, err error) {
	s, err := m.recorded(ctx)
	if err != nil {
		return nil, nil, m.failed("read the domains", err)
	}
	if len(s.domains) == 0 {
		s.domains = s.found
	}
	for _, d := range Domains() {
		switch {
		case slices.Contains(s.domains, d):
			has = append(has, d)
		case slices.Contains(DefaultDomains(), d):
			absent = append(absent, d)
		}
	}
	return has, absent, nil
}

// recorded is the state of a schema, also of one whose tables of versions and domains are broken: then it is known by
// its tables alone.
func (m *Migrator) recorded(ctx context.Context) (state, error) {
	has, err := m.state(ctx)
	if isUndefined(err) {
		has = state{}
		err = m.reading(ctx, func(tx *sql.Tx) (err error) {
			has.found, err = m.history.find(ctx, tx)
			return err
		})
	}
	return has, err
}

// removable returns the migrations that may be reverted: those of the Options' domains, or else all. It refuses a
// domain that another domain of the schema needs, unless that is to be removed, too.
func (m *Migrator) removable(s state) ([]migration, error) {
	if len(m.domains) == 0 {
		return m.migrations, nil
	}
	for _, d := range s.domains {
		for _, other := range needed([]Domain{d}) {
			if !slices.Contains(m.domains, d) && slices.Contains(m.domains, other) {
				return nil, validate.Errorf("domain", "%s is needed by %s: name that, too, or neither", other, d)
			}
		}
	}
	return of(m.migrations, m.domains), nil
}

// applied returns those of the chosen migrations that have been applied.
func (s state) applied(chosen []migration) []migration {
	return slices.DeleteFunc(slices.Clone(chosen), func(one migration) bool {
		return !slices.ContainsFunc(s.entries, func(e entry) bool { return e.version == one.version })
	})
}
