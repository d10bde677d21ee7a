package jobs

import (
	"context"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// byKey returns the job's own rule, or else its kind's.
func (i Insert) byKey(k *kind) (keyed.Rule, error) {
	switch {
	case i.ByKey == keyed.Rule(keyed.None{}):
		return nil, nil
	case i.ByKey != nil || k.byKey == nil:
		return i.ByKey, nil
	}
	return k.byKey(i.Args)
}

// lockKeys locks the keys of all jobs in a fixed order, so that two calls that share several keys cannot deadlock.
func (c *Client) lockKeys(ctx context.Context, tx workqueue.Tx, list []prepared) error {
	var rules []keyed.Rule
	for _, p := range list {
		if p.record.byKey != nil {
			rules = append(rules, p.record.byKey)
		}
	}
	if len(rules) < 2 { // the insert takes the lock of one
		return nil
	}
	return keyed.Lock(ctx, tx, c.table, rules...)
}
