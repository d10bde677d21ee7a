package costs_test

import "strings"

// claims returns the claims among the statements.
func claims(all []executed) (list []executed) {
	for _, e := range all {
		if e.isClaim() {
			list = append(list, e)
		}
	}
	return list
}

// isClaim also holds for a claim in a queue with rules or by topics, which is made by a function.
func (e executed) isClaim() bool {
	return strings.Contains(e.Text, "SET status = 1") || strings.Contains(e.Text, `_claim_admitted"`) ||
		strings.Contains(e.Text, `_claim_by_topic"`)
}

// isSettle holds for settles and renewals, which name the rows that they change.
func (e executed) isSettle() bool { return strings.HasPrefix(e.Text, "UPDATE") && !e.isClaim() }

// kind identifies statements with the same text up to FROM.
func (e executed) kind() string {
	line, _, _ := strings.Cut(strings.Join(strings.Fields(e.Text), " "), "FROM")
	return line
}

// perHundred is how many pages claims have read for every hundred rows that they claimed.
func perHundred(l *lab, claims []executed) float64 {
	l.Helper()
	var pages, rows float64
	for _, c := range claims {
		pages += float64(c.buffers())
		rows += c.Plan.Rows
	}
	if rows == 0 {
		l.Fatalf("%d statements were recognised as claims, but none claimed a row", len(claims))
	}
	return 100 * pages / rows
}

// looks returns, for each kind of statement that neither claims nor settles, the fewest pages that one has read. The
// others were the first in their sessions and have looked up what they need in the catalogs.
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
