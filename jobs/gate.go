package jobs

import (
	"context"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/gate"
)

// gate is the job's own, or its kind's.
func (i Insert) gate(k *kind) (gate.Gate, error) {
	switch {
	case i.Gate == gate.Gate(gate.None{}):
		return nil, nil
	case i.Gate != nil || k.gate == nil:
		return i.Gate, nil
	}
	return k.gate(i.Args)
}

// gateOf lets a kind's Gate see the args by their type. Args of another type, such as a pointer to it, are
// given as the handler will get them: decoded.
func gateOf[T Args](choose func(T) gate.Gate) func(Args) (gate.Gate, error) {
	if choose == nil {
		return nil
	}
	return func(a Args) (gate.Gate, error) {
		args, ok := a.(T)
		if ok {
			return choose(args), nil
		}
		encoded, err := marshal(a)
		if err == nil {
			err = unmarshal(encoded, &args)
		}
		if err != nil {
			return nil, validate.Errorf("args", "are a %T and no %T, by which the kind chooses its gate: %v", a, args,
				err)
		}
		return choose(args), nil
	}
}

// lockGates keeps two calls that write jobs of several keys from waiting for each other.
func (c *Client) lockGates(ctx context.Context, tx workqueue.Tx, list []prepared) error {
	var gates []gate.Gate
	for _, p := range list {
		if p.gate != nil {
			gates = append(gates, p.gate)
		}
	}
	if len(gates) == 0 {
		return nil
	}
	return gate.Lock(ctx, tx, c.table, gates...)
}
