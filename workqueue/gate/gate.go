package gate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
)

// MaxKey is the length of the longest key in bytes. Keys are indexed.
const MaxKey = 255

// MinRate and MaxRate bound a Rate: a bucket can be filled by those, whatever time has passed.
const (
	MinRate = 1e-9
	MaxRate = 1e9
)

// A Gate says how many rows of a key may be out at once. By default it is serial: one at a time, in commit order.
type Gate struct {
	// Key is what the rows have in common: 1 to [MaxKey] bytes. The keys of serial gates and those of others
	// are apart from each other.
	Key string

	// Limit is how many rows of the key may be out at once, by due time. A row that waits for its next attempt,
	// or is snoozed, gives its place up. [Unlimited] leaves only the Rate. Default: [Serial].
	Limit int

	// OnFailure says what happens to the rows behind a dead letter. It needs a serial gate. Default: [Block].
	OnFailure Policy

	// Rate is how many rows a second the gate lets through, attempts after the first included; 0 is as many
	// as come. It needs a Limit above 0, such as [Unlimited].
	Rate float64

	// Burst is how many rows may pass at once after a quiet time. Default with a Rate: the Rate of a second,
	// at least 1.
	Burst int
}

const (
	// Serial is the Limit of a gate that lets one live row of the key through at a time, in the order in which their
	// transactions commit. A row that failed keeps its place while it waits for its next attempt.
	Serial = 0

	// Unlimited is the Limit of a gate that only has a Rate.
	Unlimited = math.MaxInt32
)

// A Policy says what happens to the rows of a key behind a dead letter, where the key's rows run one at a time.
type Policy uint8

const (
	// Block keeps the key closed until the dead letter is redriven, deleted or unblocked, see [Unblock]. Other
	// keys go on.
	Block Policy = iota
	// Park sets the rows behind it aside as dead letters, too, those that come later included. Redriven, they
	// run in their order.
	Park
	// Skip goes on with the next row.
	Skip
)

var policyNames = [...]string{Block: "block", Park: "park", Skip: "skip"}

func (p Policy) String() string {
	if p > Skip {
		return fmt.Sprintf("Policy(%d)", uint8(p))
	}
	return policyNames[p]
}

// MarshalText writes the policy as its name.
func (p Policy) MarshalText() ([]byte, error) {
	if p > Skip {
		return nil, validate.Errorf("policy", "is %d, want Block, Park or Skip", uint8(p))
	}
	return []byte(policyNames[p]), nil
}

// UnmarshalText reads what [Policy.MarshalText] writes.
func (p *Policy) UnmarshalText(name []byte) error {
	i := slices.Index(policyNames[:], string(name))
	if i < 0 {
		return validate.Errorf("policy", "%q is unknown, want one of %s", name, strings.Join(policyNames[:], ", "))
	}
	*p = Policy(i)
	return nil
}

// stored is the column gate_policy, whose values are those of sql/gate.up.sql. Rows in no order have that of Skip.
func (g *Gate) stored() int {
	switch {
	case g.Limit != Serial || g.OnFailure == Skip:
		return 0
	case g.OnFailure == Block:
		return 1
	}
	return 2
}

// columns is how many [Columns] there are.
const columns = 6

// Columns are the domain columns of a table with gates. The core's inserts fill them from [Gate.Values].
func Columns() []workqueue.Column {
	return []workqueue.Column{
		{Name: "gate_key", Type: "text"},
		{Name: "gate_limit", Type: "integer", Internal: true},
		{Name: "gate_policy", Type: "smallint", Internal: true},
		{Name: "gate_rate", Type: "double precision", Internal: true},
		{Name: "gate_burst", Type: "integer", Internal: true},
		{Name: "gate_seq", Type: "bigint", Internal: true}, // given by the database
	}
}

// Values are a new row's values of [Columns], in their order. A nil Gate is none.
func (g *Gate) Values() []any {
	values := make([]any, columns)
	if g == nil {
		return values
	}
	values[0], values[1], values[2] = g.Key, g.Limit, g.stored()
	if g.Rate > 0 {
		values[3], values[4] = g.Rate, g.burst()
	}
	return values
}

func (g *Gate) burst() int {
	if g.Burst > 0 {
		return g.Burst
	}
	return int(max(1, math.Ceil(min(g.Rate, Unlimited))))
}

// Validate reports the first thing that is wrong with the Gate, naming the field.
func (g *Gate) Validate() error {
	if g == nil {
		return nil
	}
	switch {
	case g.Key == "":
		return validate.Errorf("gate key", "is empty")
	case g.Limit < 0 || g.Limit > Unlimited:
		return validate.Errorf("gate limit", "is %d, it must be between 0 and %d", g.Limit, Unlimited)
	case g.OnFailure > Skip:
		return validate.Errorf("gate on failure", "is %d, want Block, Park or Skip", uint8(g.OnFailure))
	case g.OnFailure != Block && g.Limit != Serial:
		return validate.Errorf("gate on failure", "%v needs a serial gate: with a limit no row is behind another",
			g.OnFailure)
	case g.Rate != 0 && !(g.Rate >= MinRate && g.Rate <= MaxRate):
		return validate.Errorf("gate rate", "is %v, it must be 0, or %v to %v a second", g.Rate, MinRate, MaxRate)
	case g.Rate > 0 && g.Limit == Serial:
		return validate.Errorf("gate rate", "needs a limit above 0, such as gate.Unlimited")
	case g.Burst < 0 || g.Burst > Unlimited:
		return validate.Errorf("gate burst", "is %d, it must be between 0 and %d", g.Burst, Unlimited)
	case g.Burst > 0 && g.Rate == 0:
		return validate.Errorf("gate burst", "needs a rate")
	}
	return cmp.Or(validate.Size("gate key", len(g.Key), MaxKey), validate.Text("gate key", g.Key))
}

// Lock takes the locks of the serial gates among gates before rows of them are inserted, in one order for
// everybody. Two transactions that write rows of several keys then cannot deadlock on those of one call.
// One key needs none: its insert takes the lock.
func Lock(ctx context.Context, tx workqueue.Tx, table *workqueue.Table, gates ...*Gate) error {
	var keys []string
	for _, g := range gates {
		if g != nil && g.Limit == Serial && !slices.Contains(keys[max(0, len(keys)-1):], g.Key) {
			keys = append(keys, g.Key)
		}
	}
	if len(keys) < 2 {
		return nil
	}
	_, err := table.In(tx).Exec(ctx, sqltext.Statement(templates, "lock", newView(table.Spec())), keys)
	return err
}

// Unblock takes dead letters out of the way of the rows behind them, as if their policy had been [Skip],
// and returns the ids that it changed. Rows that were parked stay dead letters until they are redriven.
func Unblock(ctx context.Context, tx workqueue.Tx, table *workqueue.Table, ids ...uuid.UUID) ([]uuid.UUID, error) {
	var changed []uuid.UUID
	err := table.In(tx).Query(ctx, func(scan func(...any) error) error {
		var id uuid.UUID
		err := scan(&id)
		changed = append(changed, id)
		return err
	}, "SELECT "+newView(table.Spec()).Named("gate_skip")+"($1::uuid[])", ids)
	return changed, err
}
