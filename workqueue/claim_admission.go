package workqueue

import (
	"context"
	"sync"
	"time"

	"github.com/txwork/txwork/internal/postgres"
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

// asks reports whether the next claim has to ask the rule: if there is one, or if the last answer is too old.
func (r *rule) asks() bool {
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

// admitted claims the rows that the rule of the lanes, or the state of their topics, lets pass. One statement asks it
// and claims.
func (c *claimer) admitted(ctx context.Context, req *claimRequest) ([]*delivery, error) {
	if c.queue.table.spec.hasTopics() {
		return c.byTopic(ctx, req)
	}
	if c.queue.table.spec.Admission == "" || !c.rule.asks() {
		return c.queue.claim(ctx, *req)
	}
	req.rule = new(verdict)
	rows, err := c.queue.claim(ctx, *req)
	if err != nil {
		return nil, err
	}
	c.rule.learn(req.rule, req.limit)
	if n := req.rule.admitted; n > 0 {
		req.limit = min(n, req.limit)
	}
	return rows, nil
}

func (c *claimer) byTopic(ctx context.Context, req *claimRequest) ([]*delivery, error) {
	start := time.Now()
	if req.topics = c.topics.question(req.limit); req.topics == nil {
		return c.queue.claim(ctx, *req)
	}
	rows, err := c.queue.claim(ctx, *req)
	if err == nil {
		c.topics.learn(req.topics, time.Since(start))
	}
	return rows, err
}
