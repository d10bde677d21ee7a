package report

import (
	"fmt"
	"strings"

	"github.com/txwork/txwork/bench/results"
)

// verdict says in words which entrant is ahead. It is empty if txwork did not take part.
func verdict(w results.Workload, rows []row) string {
	us, found := find(rows, own)
	if !found {
		return ""
	}
	var says []string
	for _, r := range rows {
		switch r.Peer {
		case own:
		case limit:
			says = append(says, againstLimit(w, us, r))
		default:
			says = append(says, againstPeer(w, us, r))
		}
	}
	return strings.Join(says, "\n")
}

func find(rows []row, peer string) (row, bool) {
	for _, r := range rows {
		if r.Peer == peer {
			return r, true
		}
	}
	return row{}, false
}

// lead returns how many times better txwork is.
func lead(w results.Workload, us, r row) float64 {
	if w == results.Latency {
		return r.value.Median / us.value.Median
	}
	return us.value.Median / r.value.Median
}

func againstLimit(w results.Workload, us, r row) string {
	if w == results.Latency {
		return fmt.Sprintf("- txwork takes %s times as long as %s.", ratio(us.value.Median/r.value.Median), r.name)
	}
	return fmt.Sprintf("- txwork reaches %.0f %% of the limit of %s.", 100*lead(w, us, r), r.name)
}

func againstPeer(w results.Workload, us, r row) string {
	by := lead(w, us, r)
	switch {
	case by < 1:
		return fmt.Sprintf("- **%s is ahead of txwork, %s times.**%s", r.label(), ratio(1/by), overlap(us, r))
	default:
		return fmt.Sprintf("- txwork is ahead of %s, %s times.%s", r.label(), ratio(by), overlap(us, r))
	}
}

// overlap warns if the spreads overlap, because other runs may then show the opposite.
func overlap(us, r row) string {
	if us.value.Overlaps(r.value) {
		return " Their spreads overlap."
	}
	return ""
}
