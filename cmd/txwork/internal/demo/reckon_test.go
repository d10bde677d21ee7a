package demo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
)

// The reconciliation must find errors that the demo never has. Message n belongs to transfer n, of n hundredths from
// account a to account b.
func TestReckoningFinds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ledger []int
		more   string // further changes to the tables
		want   Result
	}{
		"nothing wrong":        {[]int{1, 2, 3}, "", Result{Applied: 3, Balanced: true}},
		"lost":                 {[]int{1, 3}, "", Result{Applied: 2, Lost: 1}},
		"applied twice":        {[]int{1, 2, 2, 3}, "", Result{Applied: 3, AppliedTwice: 1}},
		"applied three times":  {[]int{1, 2, 2, 2, 3, 3}, "", Result{Applied: 3, AppliedTwice: 2}},
		"rolled back":          {[]int{1, 2, 3, 4}, "", Result{Applied: 4, RolledBackSeen: 1}},
		"rolled back, twice":   {[]int{1, 2, 3, 4, 4}, "", Result{Applied: 4, AppliedTwice: 1, RolledBackSeen: 2}},
		"lost and another one": {[]int{1, 2, 4}, "", Result{Applied: 3, Lost: 1, RolledBackSeen: 1}},
		"another amount": {[]int{1, 2, 3}, "UPDATE ledger SET amount = 4 WHERE transfer = '3'",
			Result{Applied: 3}},
		"another account": {[]int{1, 2, 3}, "UPDATE ledger SET credit = 'x' WHERE transfer = '3'",
			Result{Applied: 3}},
		"money from nowhere": {[]int{1, 2, 3}, "UPDATE accounts SET balance = balance + 1 WHERE id = 'a'",
			Result{Applied: 3}},
		"money moved elsewhere": {[]int{1, 2, 3}, "UPDATE accounts SET balance = 500", Result{Applied: 3}},
		"redelivered, refused": {[]int{1, 2, 3}, "UPDATE outbox SET attempts = 2 WHERE id = 3; INSERT INTO refusals " +
			"SELECT message, 'w', 1 FROM ledger",
			Result{Applied: 3, Redelivered: 1, StaleSettlesRefused: 3, Balanced: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := fakeRun(t, c.ledger, c.more)
			got, err := reckon(t.Context(), d, inventedPlan(3), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			c.want.Enqueued, got.Seconds = 3, 0
			if got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestReckoningNeedsThePlan(t *testing.T) {
	t.Parallel()
	_, err := reckon(t.Context(), fakeRun(t, []int{1, 2, 3}, ""), inventedPlan(4), time.Now())
	if err == nil || !strings.Contains(err.Error(), "the demo is at fault: it committed 3 transfers, its plan has 4") {
		t.Errorf("error %v for a run that did not do its work", err)
	}
}

// fakeRun creates the tables as after a run that committed three transfers.
func fakeRun(t *testing.T, ledger []int, more string) *database {
	t.Helper()
	db := pgtest.New(t)
	message := func(n int) string { return fmt.Sprintf("'%032d'::uuid", n) }
	script := []string{
		statement(db.Schema, "tables"),
		"CREATE TABLE outbox (id int, attempts int, headers jsonb)",
		"INSERT INTO outbox VALUES (1, 1), (2, 1), (3, 1)",
		"INSERT INTO accounts VALUES ('a', 500, 494), ('b', 500, 506)",
	}
	for n := 1; n <= 3; n++ {
		script = append(script, fmt.Sprintf("INSERT INTO transfers VALUES ('%d', 'a', 'b', %[1]d, %[2]s)", n,
			message(n)))
	}
	for _, n := range ledger {
		script = append(script, fmt.Sprintf("INSERT INTO ledger VALUES (%s, '%d', 'a', 'b', %[2]d, 'w', 1)", message(n),
			n))
	}
	if _, err := db.Pool.Exec(t.Context(), strings.Join(append(script, more), ";\n")); err != nil {
		t.Fatal(err)
	}
	return &database{pool: db.Pool, schema: db.Schema}
}
