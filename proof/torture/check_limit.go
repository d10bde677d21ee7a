//go:build unix

package torture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// limits check I7: a claim takes at most as many rows as it asked for.
type limits struct {
	calls []ClaimCall
	asked map[string][]int // by process and table, the limits of its calls
	took  map[string]*taken
}

// A taken is the rows that one token took.
type taken struct {
	owner string
	rows  int
	seq   int64
	token string
	first *History
}

func newLimits(calls []ClaimCall) *limits {
	l := &limits{calls: calls, asked: map[string][]int{}, took: map[string]*taken{}}
	for _, c := range calls {
		owner := c.Table + " " + c.App
		l.asked[owner] = append(l.asked[owner], c.Limit)
	}
	return l
}

func (l *limits) add(w *walk) {
	for _, c := range w.claims {
		if c.waited { // its run was taken after the claim
			continue
		}
		t := l.took[c.token]
		if t == nil {
			t = &taken{owner: w.h.Table + " " + c.app, token: c.token, first: w.h}
			l.took[c.token] = t
		}
		t.rows++
		t.seq = max(t.seq, c.seq)
	}
}

// check compares both records with the limits: what the processes received, and what the database gave them.
func (l *limits) check() (found []Violation) {
	for _, c := range l.calls {
		if c.Delivered > c.Limit {
			found = append(found, Violation{"I7", c.Table, "", fmt.Sprintf("a claim of %s for %d rows returned %d",
				c.App, c.Limit, c.Delivered), nil})
		}
	}
	byOwner := map[string][]*taken{}
	for _, t := range l.took {
		byOwner[t.owner] = append(byOwner[t.owner], t)
	}
	for _, owner := range slices.Sorted(maps.Keys(byOwner)) {
		found = append(found, beyond(byOwner[owner], l.asked[owner])...)
	}
	return found
}

// beyond finds claims that took more than any call can have asked for: the largest claim is compared with the largest
// limit, the next one with the next, and so on. The last claim of a process is left out, since the process may have
// died before it recorded what it asked for.
func beyond(claims []*taken, asked []int) (found []Violation) {
	slices.SortFunc(claims, func(a, b *taken) int { return cmp.Compare(a.seq, b.seq) })
	claims = claims[:len(claims)-1]
	slices.SortFunc(claims, func(a, b *taken) int {
		return cmp.Or(cmp.Compare(b.rows, a.rows), cmp.Compare(a.seq, b.seq))
	})
	slices.SortFunc(asked, func(a, b int) int { return cmp.Compare(b, a) })
	for i, t := range claims {
		switch {
		case i >= len(asked):
			found = append(found, t.broken("no call of its process asked for any more"))
		case t.rows > asked[i]:
			found = append(found, t.broken(fmt.Sprintf("only %d calls of its process asked for more than %d", i,
				asked[i])))
		}
	}
	return found
}

func (t *taken) broken(why string) Violation {
	return Violation{"I7", t.first.Table, t.first.ID, fmt.Sprintf("the claim %s took %d rows, and %s", short(t.token),
		t.rows, why), t.first.text()}
}
