package workqueue

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/internal/flow"
)

// askEvery is how often a worker asks for a rule if there was none. An existing rule is asked at every claim. So only
// the first pause or limit takes effect with this delay, and its end is noticed at once.
const askEvery = 500 * time.Millisecond

// A rule is what a worker knows of the rule of its lanes, see [Spec].Admission.
type rule struct {
	mu      sync.Mutex
	bounded bool
	asked   time.Time
	again   time.Time // when to ask once more; zero: it did not say
}

// isDue reports whether the next claim has to ask the rule: if there is one, or if the last answer is too old.
func (r *rule) isDue() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bounded || time.Since(r.asked) >= askEvery
}

func (r *rule) learn(v *verdict, want int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bounded, r.asked, r.again = v.bounded, time.Now(), time.Time{}
	if v.again > 0 && v.admitted < want {
		r.again = r.asked.Add(postgres.Seconds(v.again))
	}
}

// due returns how long until the rule is to be asked again; negative: it did not say.
func (r *rule) due() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.again.IsZero() {
		return -1
	}
	return max(time.Until(r.again), 0)
}

// ask claims and asks, in one statement: the rule of the lanes, or the state of their topics, lets only some rows pass.
func (c *claimer) ask(ctx context.Context, req *claimRequest) ([]*claimedRow, error) {
	start := time.Now()
	if spec := &c.queue.table.spec; spec.hasTopics() {
		req.topics = c.topics.question(req.limit)
	} else if spec.Admission != "" && c.rule.isDue() {
		req.rule = new(verdict)
	}
	rows, err := c.queue.claim(ctx, *req)
	if err != nil {
		return nil, err
	}
	if req.topics != nil {
		c.topics.learn(req.topics, time.Since(start))
	}
	if req.rule != nil {
		c.rule.learn(req.rule, req.limit)
		if n := req.rule.admitted; n > 0 {
			req.limit = min(n, req.limit)
		}
	}
	return rows, nil
}

// topicState is what a worker knows of the topics of its table, see [Spec].Topics. A claim asks about them, by the
// function claim_by_topic, as long as a topic is paused, has rows aside or has no room, and twice a second in any case.
// Other claims are the usual statement. So the first pause takes effect with this delay if no notification comes.
type topicState struct {
	flow *flow.Buffer[*delivery] // of the worker; nil in a drain, where topics have no shares

	mu      sync.Mutex
	changes int           // how often the state of a topic may have changed
	paused  bool          // a topic was, at the last answer
	asked   time.Time     // the last answer
	askNext time.Time     // when to ask again for topics with rows aside
	took    time.Duration // by the last claim that asked for these
	open    []openTopic

	resting map[string]struct{} // topics whose destinations are unavailable
	again   time.Time           // when the first of them may be probed; zero: it is not known
}

// changed makes the next claim ask: the state of a topic has changed, or may have.
func (s *topicState) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	s.asked, s.askNext = time.Time{}, time.Time{}
}

// claimIsDue reports that the worker should claim although it would find nothing in its lanes: there may be rows aside,
// or a topic that may be probed.
func (s *topicState) claimIsDue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	return now.Sub(s.asked) >= lookForTopicsEvery || !s.again.IsZero() && !now.Before(s.again)
}

// due returns how long until a topic may be probed; negative: it is not known.
func (s *topicState) due() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.again.IsZero() {
		return -1
	}
	return max(time.Until(s.again), 0)
}

// rests reports whether a topic rests, so that a row of it that was claimed before is not started.
func (s *topicState) rests(topic string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, rests := s.resting[topic]
	return rests
}

// question returns what the next claim of so many rows asks; nil: nothing.
func (s *topicState) question(limit int) *topicQuestion {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	stuck := s.flow.Stuck()
	if !s.paused && len(s.open) == 0 && len(stuck) == 0 && now.Sub(s.asked) < askEvery {
		return nil
	}
	q := &topicQuestion{asksAside: !now.Before(s.askNext), again: -1, changes: s.changes}
	for topic := range stuck {
		q.busy = append(q.busy, topic)
	}
	for _, o := range s.open {
		room := limit
		if own, is := stuck[o.name]; is {
			room = min(room, own)
		}
		if room > 0 {
			q.open, q.rooms = append(q.open, o), append(q.rooms, room)
		}
	}
	return q
}

// learn takes the answer of a claim that took so long.
func (s *topicState) learn(q *topicQuestion, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.paused, s.asked = q.paused > 0, now
	s.resting, s.again = q.resting, time.Time{}
	if q.again >= 0 {
		s.again = now.Add(q.again)
	}
	if q.asksAside {
		cost := min(took, s.took) // one may have been slow for another reason
		s.took, s.askNext = took, now.Add(min(max(askEvery, sweepShare*cost), lookForTopicsEvery))
	}
	if q.changes != s.changes { // after the claim had read them, perhaps
		s.asked, s.askNext = time.Time{}, time.Time{}
	}
	for i, o := range q.open {
		n := 0
		for _, row := range q.fromLane {
			if row.topic == o.name {
				n++
				if o.after.before(row.place) {
					o.after = row.place
				}
			}
		}
		at := slices.IndexFunc(s.open, func(known openTopic) bool { return known.name == o.name })
		if at < 0 {
			continue
		}
		s.open = slices.Delete(s.open, at, at+1)
		if q.cut || n >= q.rooms[i] {
			s.open = append(s.open, o) // behind the others, so that each has its turn
		} else {
			s.flow.Drained(o.name)
		}
	}
	stuck := s.flow.Stuck()
	for _, topic := range q.aside {
		if !slices.ContainsFunc(s.open, func(o openTopic) bool { return o.name == topic }) {
			s.open = append(s.open, openTopic{name: topic})
			if room, is := stuck[topic]; !is || room > 0 {
				q.more = true
			}
		}
	}
}
