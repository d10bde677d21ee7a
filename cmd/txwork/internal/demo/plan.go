package demo

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// A Transfer moves money from one account to another.
type Transfer struct {
	ID     string `json:"id"`
	From   string `json:"from"`
	To     string `json:"to"`
	Amount int64  `json:"amount"` // in hundredths
}

// A plan is the transfers of one run.
type plan struct {
	count    int
	transfer func(i int) Transfer
	accounts []string
	opening  int64 // opening balance of every account, in hundredths
	// retried says that a transfer that is rolled back on purpose is made again, because a user's input has to arrive
	// completely.
	retried bool
}

// rollBackEvery says that every tenth transfer is rolled back on purpose.
const rollBackEvery = 10

// rollsBack chooses the transfers to roll back by their position, so that every run rolls back the same ones.
func (p plan) rollsBack(i int) bool { return (i+1)%rollBackEvery == 0 }

// rolledBack is how many transactions are rolled back on purpose.
func (p plan) rolledBack() int { return p.count / rollBackEvery }

// committed is how many transfers must be committed in the end.
func (p plan) committed() int {
	if p.retried {
		return p.count
	}
	return p.count - p.rolledBack()
}

const (
	inventedAccounts = 100
	inventedOpening  = 1_000_000 // 10,000.00
	inventedMost     = 10_000    // 100.00
)

// inventedPlan generates transfers, the same ones in every run.
func inventedPlan(count int) plan {
	accounts := make([]string, inventedAccounts)
	for i := range accounts {
		accounts[i] = fmt.Sprintf("account-%03d", i+1)
	}
	return plan{count: count, accounts: accounts, opening: inventedOpening, transfer: func(i int) Transfer {
		random := rand.New(rand.NewPCG(0, uint64(i)))
		from := random.IntN(len(accounts))
		to := (from + 1 + random.IntN(len(accounts)-1)) % len(accounts)
		return Transfer{
			ID: strconv.Itoa(i + 1), From: accounts[from], To: accounts[to], Amount: 1 + random.Int64N(inventedMost),
		}
	}}
}

// givenPlan makes the transfers of a file. Its accounts start at zero and may become negative.
func givenPlan(transfers []Transfer) plan {
	seen := map[string]bool{}
	var accounts []string
	for _, t := range transfers {
		for _, account := range []string{t.From, t.To} {
			if !seen[account] {
				seen[account] = true
				accounts = append(accounts, account)
			}
		}
	}
	return plan{count: len(transfers), accounts: accounts, retried: true,
		transfer: func(i int) Transfer { return transfers[i] }}
}
