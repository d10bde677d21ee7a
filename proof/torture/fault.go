//go:build unix

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// A fault makes something go wrong by real means. Its methods are called one after another by one goroutine.
type fault interface {
	// configure is called before the server starts. A skipped says why the fault cannot strike here.
	configure(l *lab) error
	// prepare is called when the server runs, before the tables are created.
	prepare(ctx context.Context, l *lab) error
	// strike is one episode: it returns when the fault is over, with a description of what it did.
	strike(ctx context.Context, l *lab, random *rand.Rand) (detail string, err error)
	// close removes everything that the fault created.
	close()
}

// harm says whom a fault strikes, and so which rows it may hold up.
type harm int

const (
	harmsAnyone     harm = iota
	harmsAnnouncers      // workers continue, and find unannounced rows by a poll
	harmsNobody
)

// harmOf returns whom a fault harms: everyone, unless the fault says otherwise.
func harmOf(f fault) harm {
	if few, ok := f.(interface{ harms() harm }); ok {
		return few.harms()
	}
	return harmsAnyone
}

// inQuiet is embedded by faults that strike while producers pause. Such a strike begins when all rows have ended
// that are due, and writes its own.
type inQuiet struct{}

func (inQuiet) quiet() {}

// isQuiet tells whether producers pause for a fault.
func isQuiet(f fault) bool {
	_, quiet := f.(interface{ quiet() })
	return quiet
}

// A skipped says why a fault cannot strike on this machine or server.
type skipped struct{ reason string }

func (s skipped) Error() string { return s.reason }

func skip(format string, args ...any) error { return skipped{fmt.Sprintf(format, args...)} }

// plain is embedded by faults that need no preparation.
type plain struct{}

func (plain) configure(*lab) error                { return nil }
func (plain) prepare(context.Context, *lab) error { return nil }
func (plain) close()                              {}

// private is embedded by faults that need a private server.
type private struct{ plain }

func (private) configure(l *lab) error { return l.needPrivate() }

// catalogue contains every fault by name.
var catalogue = map[string]func() fault{
	"announcer-black-hole": func() fault { return &announcerBlackHole{} },
	"announcer-double":     func() fault { return &announcerDouble{} },
	"announcer-freeze":     func() fault { return &announcerFreeze{} },
	"announcer-kill":       func() fault { return &announcerKill{} },
	"announcer-pooler":     func() fault { return &announcerPooler{} },
	"backend-kill9":        func() fault { return &backendKill{} },
	"backend-terminate":    func() fault { return &backendTerminate{} },
	"bad-plans":            func() fault { return &badPlans{} },
	"black-hole":           func() fault { return &blackHole{} },
	"clock":                func() fault { return &clock{} },
	"disk-full":            func() fault { return &diskFull{} },
	"failover":             func() fault { return &failover{} },
	"frozen-session":       frozenSessions,
	"held-snapshot":        func() fault { return &heldSnapshot{} },
	"hot-key":              hotKey,
	"hung-receivers":       func() fault { return hungReceivers{} },
	"isolation":            func() fault { return &isolation{} },
	"locked-tables":        lockedTables,
	"log-restored":         func() fault { return logRestored{} },
	"log-verbs":            func() fault { return &logVerbs{} },
	"lost-reply":           func() fault { return &lostReply{} },
	"lost-rights":          func() fault { return lostRights{} },
	"many-keys":            manyKeys,
	"open-transaction":     openTransactions,
	"pgbouncer":            func() fault { return &pgbouncer{} },
	"poison":               func() fault { return &poison{} },
	"postgres-crash":       func() fault { return &postgresCrash{} },
	"refused-rows":         refusedRows,
	"rolling-upgrade":      func() fault { return &rollingUpgrade{} },
	"rush":                 func() fault { return &rush{} },
	"rush-pgbouncer":       func() fault { return &pooledRush{} },
	"rush-snapshot":        func() fault { return &rushBesideSnapshot{} },
	"shutdown-storm":       func() fault { return &shutdownStorm{} },
	"starved-pool":         func() fault { return &starvedPool{} },
	"tenants":              func() fault { return &tenants{} },
	"worker-kill":          func() fault { return &workerKill{} },
	"zombie":               func() fault { return &zombie{} },
}
