package jobs

import (
	"context"

	"github.com/txwork/txwork/workqueue/validate"

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

// byKeyOf adapts a kind's ByKey to the interface Args. Args of another type than T, such as *T, are encoded and decoded
// into a T first, which is how the handler will get them.
func byKeyOf[T Args](choose func(T) keyed.Rule) func(Args) (keyed.Rule, error) {
	if choose == nil {
		return nil
	}
	return func(a Args) (keyed.Rule, error) {
		args, ok := a.(T)
		if ok {
			return choose(args), nil
		}
		encoded, err := marshal(a)
		if err == nil {
			err = unmarshal(encoded, &args)
		}
		if err != nil {
			return nil, validate.Errorf("args", "are a %T and no %T, by which the kind chooses its byKey: %v", a, args,
				err)
		}
		return choose(args), nil
	}
}

// lockKeys locks the keys of all jobs in a fixed order, so that two calls that share several keys cannot deadlock.
func (c *Client) lockKeys(ctx context.Context, tx workqueue.Tx, list []prepared) error {
	var rules []keyed.Rule
	for _, p := range list {
		if p.byKey != nil {
			rules = append(rules, p.byKey)
		}
	}
	if len(rules) == 0 {
		return nil
	}
	return keyed.Lock(ctx, tx, c.table, rules...)
}
