package jobs

import (
	"context"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// byKey is the job's own rule, or its kind's.
func (i Insert) byKey(k *kind) (keyed.Rule, error) {
	switch {
	case i.ByKey == keyed.Rule(keyed.None{}):
		return nil, nil
	case i.ByKey != nil || k.byKey == nil:
		return i.ByKey, nil
	}
	return k.byKey(i.Args)
}

// byKeyOf lets a kind's ByKey see the args by their type. Args of another type, such as a pointer to it, are
// given as the handler will get them: decoded.
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

// lockKeys keeps two calls that write jobs of several keys from waiting for each other.
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
