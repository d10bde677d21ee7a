package outbox_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// byTopic are the arguments of a claim by topic.
type byTopic struct {
	n      int
	busy   []string
	open   []string
	places []int // in the lanes of open: behind the row with this number
	room   []int
	asks   bool
}

// An answer is a row that a claim by topic returned.
type answer struct {
	Kind    int
	Topic   string
	N       int
	Lane    int
	Payload string
}

// claimByTopic calls the SQL function whose comment is the contract of this file's tests, and returns its answers. The
// rows of a topic were written by sendMany, so that their payloads are their numbers.
func (f *fixture) claimByTopic(c byTopic) (all []answer) {
	f.Helper()
	rows, err := f.Pool.Query(f.Context(), `
		SELECT a.kind, coalesce(a.topic, (a.claimed).topic, ''), coalesce(a.n, 0), coalesce(a.lane, 0),
		    coalesce(convert_from((a.claimed).payload, 'UTF8'), '')
		FROM `+f.table+`_claim_by_topic(gen_random_uuid(), interval '1 minute', $1, ARRAY['-infinity']::timestamptz[],
		    ARRAY['00000000-0000-0000-0000-000000000000']::uuid[], $2, $3,
		    ARRAY(SELECT coalesce((SELECT r.due_at FROM `+f.table+` AS r
		        WHERE r.topic = p.topic AND r.payload = convert_to(p.number::text, 'UTF8')), '-infinity')
		        FROM unnest($3::text[], $4::int[]) WITH ORDINALITY AS p (topic, number, place) ORDER BY p.place),
		    ARRAY(SELECT coalesce((SELECT r.id FROM `+f.table+` AS r
		        WHERE r.topic = p.topic AND r.payload = convert_to(p.number::text, 'UTF8')),
		        '00000000-0000-0000-0000-000000000000')
		        FROM unnest($3::text[], $4::int[]) WITH ORDINALITY AS p (topic, number, place) ORDER BY p.place),
		    $5, $6) AS a
		ORDER BY a.kind, a.topic, (a.claimed).due_at`,
		c.n, append([]string{}, c.busy...), append([]string{}, c.open...), c.places, c.room, c.asks)
	if err == nil {
		all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[answer])
	}
	if err != nil {
		f.Fatal(err)
	}
	return all
}

// of returns the answers of some kinds as text, those of claimed rows as topic and number.
func of(all []answer, kinds ...int) (texts []string) {
	for _, a := range all {
		if !slices.Contains(kinds, a.Kind) {
			continue
		}
		switch a.Kind {
		case 1, 2:
			texts = append(texts, a.Topic+" "+a.Payload)
		case 4:
			texts = append(texts, a.Topic)
		case 5:
			texts = append(texts, fmt.Sprint(a.Topic, " ", a.N))
		default:
			texts = append(texts, fmt.Sprint(a.N, " ", a.Lane))
		}
	}
	return texts
}

// setAside sets all rows of topics aside, as a claim of a worker does that has no room for them.
func (f *fixture) setAside(topics ...string) {
	f.Helper()
	f.claimByTopic(byTopic{n: 1000, busy: topics})
}

// What a claim by topic takes from the lanes of topics, and what it says about them.
func TestAClaimByTopic(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		arrange func(*fixture)
		claim   byTopic
		kinds   []int
		want    []string
	}{
		"from a place on": {
			func(f *fixture) { f.sendMany("a", 5); f.setAside("a") },
			byTopic{n: 10, open: []string{"a"}, places: []int{3}, room: []int{10}},
			[]int{1, 2}, []string{"a 4", "a 5"},
		},
		"new rows of a topic with rows aside queue up behind these": {
			func(f *fixture) {
				f.sendMany("a", 2)
				f.setAside("a")
				f.exec("INSERT INTO " + f.table + " (topic, payload, due_at) VALUES ('a', 'new', now() - interval '2 hours')")
			},
			byTopic{n: 10, open: []string{"a"}, places: []int{0}, room: []int{10}},
			[]int{1, 2, 5}, []string{"a 1", "a 2", "a 1"},
		},
		"as many as there is room for": {
			func(f *fixture) { f.sendMany("a", 5); f.sendMany("b", 5); f.setAside("a", "b") },
			byTopic{n: 10, open: []string{"a", "b"}, places: []int{0, 0}, room: []int{2, 0}},
			[]int{1, 2}, []string{"a 1", "a 2"},
		},
		"of lanes without room, all are left": {
			func(f *fixture) { f.sendMany("a", 5); f.setAside("a") },
			byTopic{n: 10, open: []string{"a"}, places: []int{0}, room: []int{-1}},
			[]int{1, 2}, nil,
		},
		"of open topics alone": {
			func(f *fixture) { f.sendMany("a", 2); f.sendMany("b", 2); f.setAside("a", "b") },
			byTopic{n: 10, open: []string{"b"}, places: []int{0}, room: []int{10}},
			[]int{1, 2}, []string{"b 1", "b 2"},
		},
		"none that are due later": {
			func(f *fixture) {
				f.sendMany("a", 3)
				f.setAside("a")
				f.exec("UPDATE " + f.table + " SET due_at = now() + interval '1 hour' WHERE payload <> '2'")
			},
			byTopic{n: 10, open: []string{"a"}, places: []int{0}, room: []int{10}},
			[]int{1, 2}, []string{"a 2"},
		},
		"none of a topic that was paused since": {
			func(f *fixture) {
				f.sendMany("a", 2)
				f.sendMany("b", 2)
				f.setAside("a", "b")
				f.pause("a")
			},
			byTopic{n: 10, open: []string{"a", "b"}, places: []int{0, 0}, room: []int{10, 10}},
			[]int{1, 2}, []string{"b 1", "b 2"},
		},
		"the topics with rows aside are named if it asks": {
			func(f *fixture) {
				f.sendMany("a", 2)
				f.sendMany("b", 2)
				f.sendMany("c", 2)
				f.setAside("a", "b", "c")
				f.pause("b")
			},
			byTopic{n: 10, open: []string{"a"}, places: []int{0}, room: []int{1}, asks: true},
			[]int{1, 2, 4}, []string{"a 1", "a", "c"},
		},
		"and not if it does not": {
			func(f *fixture) { f.sendMany("a", 2); f.setAside("a") },
			byTopic{n: 10}, []int{1, 2, 4}, nil,
		},
		"how many rows of busy topics were set aside, and not of paused ones": {
			func(f *fixture) {
				f.sendMany("a", 2)
				f.sendMany("b", 3)
				f.sendMany("c", 1)
				f.pause("b")
			},
			byTopic{n: 10, busy: []string{"a"}},
			[]int{1, 2, 5}, []string{"c 1", "a 2"},
		},
		"a claim that found all it wanted may have left some": {
			func(f *fixture) { f.sendMany("a", 3); f.pause("z") },
			byTopic{n: 2}, []int{0}, []string{"1 1"},
		},
		"one that did not has left none": {
			func(f *fixture) { f.sendMany("a", 3) },
			byTopic{n: 4}, []int{0}, []string{"0 0"},
		},
		"one that took all it wanted from lanes may have left some there": {
			func(f *fixture) { f.sendMany("a", 3); f.setAside("a") },
			byTopic{n: 2, open: []string{"a"}, places: []int{0}, room: []int{10}},
			[]int{0}, []string{"0 2"},
		},
		"one that found nothing is where it was": {
			func(*fixture) {}, byTopic{n: 2}, []int{1, 2, 3, 4, 5}, nil,
		},
		"one that found rows is behind them": {
			func(f *fixture) { f.sendMany("a", 1) }, byTopic{n: 2}, []int{3}, []string{"0 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newOutbox(t)
			test.arrange(f)
			if test.claim.places == nil {
				test.claim.places, test.claim.room = []int{}, []int{}
			}
			if got := of(f.claimByTopic(test.claim), test.kinds...); !slices.Equal(got, test.want) {
				t.Errorf("it answers %q, want %q", got, test.want)
			}
		})
	}
}

// At most half of the rows come from the lanes of topics, unless there are too few others; an odd number is rounded by
// chance. A row that another session has locked is left to it, and not waited for.
func TestSharesOfAClaimByTopic(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.sendMany("a", 100)
	f.setAside("a")
	f.sendMany("b", 100)
	claim := byTopic{n: 10, open: []string{"a"}, places: []int{0}, room: []int{100}}
	all := f.claimByTopic(claim)
	if lanes, others := len(of(all, 2)), len(of(all, 1)); lanes != 5 || others != 5 {
		t.Errorf("%d rows of lanes and %d others, want 5 and 5", lanes, others)
	}
	f.inTx(func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "SELECT FROM "+f.table+" WHERE status = 0 AND (topic = 'a' AND payload IN "+
			"('6', '7') OR topic = 'b' AND payload IN ('6', '7')) FOR UPDATE")
		if err != nil {
			return err
		}
		got := of(f.claimByTopic(claim), 1, 2)
		want := []string{"b 8", "b 9", "b 10", "b 11", "b 12", "a 8", "a 9", "a 10", "a 11", "a 12"}
		if !slices.Equal(got, want) {
			t.Errorf("beside locked rows it claimed %q, want %q", got, want)
		}
		return nil
	})
}

// Rows that were cancelled while they were aside have ended: no topic has them.
func TestCancelledRowsAreNotAside(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	for _, topic := range []string{"a", "b", "c", "d"} {
		f.sendMany(topic, 3)
	}
	f.setAside("a", "b", "c", "d")
	f.pause("c")
	rows, err := f.Pool.Query(t.Context(), "SELECT id FROM "+f.table+" WHERE topic <> 'b' OR payload = '2'")
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		t.Fatal(err)
	}
	if cancelled, err := f.box.Table().On(f.Pool).Cancel(t.Context(), ids, ""); err != nil || len(cancelled) != 10 {
		t.Fatal(cancelled, err)
	}
	for _, i := range f.topics() {
		switch {
		case i.Topic == "b" && i.Aside == 2 && !i.Paused, i.Topic == "c" && i.Aside == 0 && i.Oldest == 0 && i.Paused:
		default:
			t.Errorf("%+v has rows aside that have ended", i)
		}
	}
	claim := byTopic{n: 10, open: []string{"a", "b"}, places: []int{0, 0}, room: []int{10, 10}, asks: true}
	if got, want := of(f.claimByTopic(claim), 1, 2, 4), []string{"b 1", "b 3", "b"}; !slices.Equal(got, want) {
		t.Errorf("a claim answers %q, want %q", got, want)
	}
}

// Who sees the state of topics follows the table's row-level security, whenever the owner of the tables says that it
// has changed.
func TestPoliciesOfTopics(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	state := func() (secured bool, policies int) {
		t.Helper()
		if err := f.Pool.QueryRow(t.Context(), "SELECT c.relrowsecurity, (SELECT count(*) FROM pg_policy AS p "+
			"WHERE p.polrelid = c.oid AND p.polcmd = 'r') FROM pg_class AS c WHERE c.oid = $1::regclass",
			f.table+"_topic").Scan(&secured, &policies); err != nil {
			t.Fatal(err)
		}
		return secured, policies
	}
	f.exec("SELECT " + f.table + "_topic_policies()")
	if secured, policies := state(); secured || policies != 0 {
		t.Errorf("without row-level security: %t with %d policies", secured, policies)
	}
	f.exec("ALTER TABLE " + f.table + " ENABLE ROW LEVEL SECURITY")
	for range 2 {
		f.exec("SELECT " + f.table + "_topic_policies()")
		if secured, policies := state(); !secured || policies != 1 {
			t.Errorf("with row-level security: %t with %d policies", secured, policies)
		}
	}
	f.exec("ALTER TABLE " + f.table + " DISABLE ROW LEVEL SECURITY")
	f.exec("SELECT " + f.table + "_topic_policies()")
	if secured, policies := state(); secured || policies != 0 {
		t.Errorf("once it is off again: %t with %d policies", secured, policies)
	}
}
