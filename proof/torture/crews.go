//go:build unix

package torture

// The producers and workers that use the library, and those that use the SQL functions only.
const (
	goCrew = iota
	sqlCrew
	crews
)

// sqlPrefix is how the names of SQL workers begin.
const sqlPrefix = crewPrefix + "sql"

func crewOf(sql bool) int {
	if sql {
		return sqlCrew
	}
	return goCrew
}

// idle is how many rows of a table one crew may handle while the other handles none.
const idle = 200

// checkCrews fails a run in which the crew of the SQL functions did nothing, since it showed nothing of them.
func (l *lab) checkCrews(s *shop, r *records) {
	if l.options.GoOnly {
		return
	}
	if n := s.enqueued[goCrew].Load(); s.enqueued[sqlCrew].Load() == 0 && n > idle {
		l.fail("no row was enqueued by an SQL function, and %d by the library; the last error of a function: %v", n,
			s.refused[sqlCrew].Load())
	}
	for table, n := range r.handled[goCrew] {
		if r.handled[sqlCrew][table] == 0 && n > idle {
			l.fail("no row of %s was handled by a worker that uses the SQL functions, and %d by others", table, n)
		}
	}
}

// checkReadings fails a run in which a subscription handled nothing.
func (l *lab) checkReadings(v LogVerdict) {
	for name, s := range v.Subscriptions {
		if s.Messages > idle && s.Handled == 0 {
			l.fail("of the subscription %s no message was handled", name)
		}
	}
}

func (s *shop) crewReports(r *records) map[string]CrewReport {
	of := func(crew int) CrewReport { return CrewReport{int(s.enqueued[crew].Load()), r.handled[crew]} }
	return map[string]CrewReport{"go": of(goCrew), "sql": of(sqlCrew)}
}
