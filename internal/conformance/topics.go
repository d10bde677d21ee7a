package conformance

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// topics are the tests of tables whose rows have topics. All rows of the first lane have the same one.
var topics = []test{
	{"topic/scheduled", pausedScheduled},
	{"topic/in progress", pausedInProgress},
	{"topic/redriven", pausedRedriven},
	{"topic/unavailable", unavailableRests},
}

// pause pauses the topic of the rows until the test resumes it, or ends.
func (s *suite) pause() (resume func()) {
	s.Helper()
	var names []any
	if s.Spec.Topics.Lane != "" {
		names = append(names, s.Lanes[0][slices.Index(s.Spec.Lanes, s.Spec.Topics.Lane)])
	}
	of := func(c workqueue.Column) bool { return c.Name == s.Spec.Topics.Columns[0] }
	names = append(names, s.values(0, 0)[slices.IndexFunc(s.Spec.Columns, of)])
	params := []string{"$1", "$1, $2"}[len(names)-1]
	call := func(verb string) bool {
		s.Helper()
		return scan[bool](s, "SELECT $T_"+verb+"("+params+")", names...)
	}
	equal(s, "paused", call("pause"), true)
	s.forgetTopics()
	return func() {
		s.Helper()
		equal(s, "resumed", call("resume"), true)
	}
}

// forgetTopics ends what holds topics when the test ends, which shares its table.
func (s *suite) forgetTopics() {
	if len(s.Spec.Topics.Columns) == 0 {
		return
	}
	s.Cleanup(func() { // the test's context is over
		_, err := s.eyes.Exec(context.Background(), s.sql("DELETE FROM $T_topic"))
		s.ok(err)
	})
}

// resting is how many topics rest.
func (s *suite) resting() int {
	s.Helper()
	if len(s.Spec.Topics.Columns) == 0 {
		return 0
	}
	return scan[int](s, "SELECT count(*)::int FROM $T_topic WHERE unavailable_since IS NOT NULL")
}

// starts claims rows one by one until there is none. They have to be those given, in this order.
func (s *suite) starts(want ...uuid.UUID) {
	s.Helper()
	var got []uuid.UUID
	for {
		c := s.claim(1)
		if len(c.ids) == 0 {
			break
		}
		got = append(got, c.ids...)
	}
	if !slices.Equal(got, want) {
		s.Fatalf("the rows %v start, want %v", got, want)
	}
}

// aside is what a claim does to a row of a paused topic.
var aside = effect{"waiting": is(true), "aside": is(true)}

// Rows of a paused topic that are scheduled keep their time. When it comes, they wait like the others, and start in the
// order in which they were due.
func pausedScheduled(s *suite) {
	scheduled := func(in time.Duration) uuid.UUID {
		s.Helper()
		return s.ready(1, func(row *workqueue.NewRow) { row.DueAt = s.clock().Add(in) })[0]
	}
	later, soon := scheduled(2*time.Hour), scheduled(time.Hour)
	due := s.ready(1)[0]
	resume := s.pause()
	s.unchanged([]uuid.UUID{soon, later}, func() { s.expect(due, aside, func() { s.starts() }) })

	s.set("due_at = clock_timestamp()", soon)
	s.unchanged([]uuid.UUID{due, later}, func() { s.expect(soon, aside, func() { s.starts() }) })

	resume()
	s.unchanged([]uuid.UUID{later}, func() { s.starts(due, soon) })
	s.set("due_at = clock_timestamp()", later)
	s.starts(later)
}

// Rows of a paused topic that run go on, are renewed and end. Those that are to run again wait, whatever ended their
// attempt.
func pausedInProgress(s *suite) {
	c := s.claimed(4)
	done, renewed, failed, lost := c.ids[:1], c.ids[1:2], c.ids[2:3], c.ids[3:4]
	behind := s.ready(1)[0]
	resume := s.pause()
	s.unchanged(c.ids, func() { s.expect(behind, aside, func() { s.starts() }) })

	s.settled(s.ackSettle(), c.token, done, done, nil, nil)
	s.settled(extendSettle(), c.token, renewed, renewed, nil, nil)
	s.settled(s.ackSettle(), c.token, renewed, renewed, nil, nil)
	s.settled(abandonSettle(0), c.token, failed, failed, nil, nil)
	s.expect(failed[0], aside, func() { s.starts() })
	s.expire(lost...)
	equal(s, "reaped", s.reap(10), workqueue.Reaped{Requeued: 1})
	s.set("due_at = clock_timestamp()", lost...) // its backoff has passed
	s.expect(lost[0], aside, func() { s.starts() })

	resume()
	s.starts(behind, failed[0], lost[0])
	equal(s, "attempts of those that run", scan[int](s, "SELECT sum(attempts)::int FROM $T WHERE status = 1"), 1+2+2)
}

// Dead letters that are redriven into a paused topic wait, and so do rows that were cancelled while they were aside.
func pausedRedriven(s *suite) {
	c := s.claimed(1)
	s.settled(failSettle(), c.token, c.ids, c.ids, nil, nil)
	before, cancelled := s.ready(1)[0], s.ready(1)[0]
	resume := s.pause()
	s.starts()
	s.wantCancelled(cancelled)
	redriven := []uuid.UUID{c.ids[0], cancelled}
	for _, id := range redriven {
		s.do(func(ctx context.Context, o ops) error {
			ids, err := o.redrive(ctx, []uuid.UUID{id}, "")
			s.sameIDs(ids, []uuid.UUID{id})
			return err
		})
	}
	s.unchanged([]uuid.UUID{before}, func() {
		s.expect(redriven[0], aside, func() { s.expect(redriven[1], aside, func() { s.starts() }) })
	})

	resume()
	s.starts(before, redriven[0], redriven[1])
	equal(s, "attempts", scan[int](s, "SELECT max(attempts) FROM $T"), 1)
}

// Rows of a topic whose destination is unavailable are claimed one at a time, when its rest is over, in their order. A
// row that is done opens the topic.
func unavailableRests(s *suite) {
	s.forgetTopics()
	c := s.claimed(2)
	behind := s.ready(1)[0]
	over := func() {
		s.exec("UPDATE $T_topic SET rests_until = clock_timestamp() - interval '1 second'")
	}
	s.settled(s.unavailableSettle(), c.token, c.ids[:1], c.ids[:1], nil, nil)
	s.exec("UPDATE $T_topic SET rests_until = clock_timestamp() + interval '1 hour', longest_rest = '1 hour'") // the test may be slow
	s.expect(behind, aside, func() { s.starts() })
	s.unchanged(c.ids, func() { s.settled(s.unavailableSettle(), uuid.New(), c.ids, nil, c.ids, nil) })

	over()
	probe := s.claim(10)
	s.sameIDs(probe.ids, c.ids[:1])
	s.starts()
	s.settled(s.unavailableSettle(), probe.token, probe.ids, probe.ids, nil, nil)
	equal(s, "the rest", scan[string](s, "SELECT rest::text FROM $T_topic"), "00:00:01")

	over()
	probe = s.claim(10)
	s.sameIDs(probe.ids, c.ids[:1])
	s.settled(s.ackSettle(), probe.token, probe.ids, probe.ids, nil, nil)
	s.starts(behind)
	equal(s, "topics that rest", s.resting(), 0)
	equal(s, "attempts", scan[int](s, "SELECT max(attempts) FROM $T"), 1)
}
