package costs_test

import "strings"

// claims are those among the statements.
func claims(all []executed) (list []executed) {
	for _, e := range all {
		if e.isClaim() {
			list = append(list, e)
		}
	}
	return list
}

// isClaim holds for a claim in a queue with rules, too, which is in a function.
func (e executed) isClaim() bool {
	return strings.Contains(e.Text, "SET status = 1") || strings.Contains(e.Text, `_claim_admitted"`)
}

// isSettle holds for settles and renewals, which know the rows that they change.
func (e executed) isSettle() bool { return strings.HasPrefix(e.Text, "UPDATE") && !e.isClaim() }

// kind tells statements apart.
func (e executed) kind() string {
	line, _, _ := strings.Cut(strings.Join(strings.Fields(e.Text), " "), "FROM")
	return line
}

// perHundred is how many pages claims have read by a hundred rows that they claimed.
func perHundred(l *lab, claims []executed) float64 {
	l.Helper()
	var pages, rows float64
	for _, c := range claims {
		pages += float64(c.buffers())
		rows += c.Plan.Rows
	}
	if rows == 0 {
		l.Fatalf("nothing was claimed by %d statements that are known for claims", len(claims))
	}
	return 100 * pages / rows
}

// looks is, for each kind of statement that neither claims nor settles, the fewest pages that one has read: the others
// were first in their sessions and have looked up what they need in the catalogs.
func looks(all []executed) map[string]int {
	fewest := map[string]int{}
	for _, e := range all {
		if e.isClaim() || e.isSettle() {
			continue
		}
		if n, found := fewest[e.kind()]; !found || e.buffers() < n {
			fewest[e.kind()] = e.buffers()
		}
	}
	return fewest
}
