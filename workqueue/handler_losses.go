package workqueue

import (
	"strconv"
	"time"

	"github.com/txwork/txwork/internal/header"
	"github.com/txwork/txwork/workqueue/internal/flow"
)

// Topic implements [flow.Row].
func (d *delivery) Topic() string { return d.topic }

// Place implements [flow.Row].
func (d *delivery) Place() *flow.Place { return &d.place }

// LostLeases implements [flow.Row]: it reads what the reaper has recorded in the row's headers.
func (d *delivery) LostLeases() (lost flow.Losses, marked bool) {
	at, marked := d.Headers[header.LostAt]
	if !marked {
		return lost, false
	}
	last, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return lost, false
	}
	return flow.Losses{Alone: lostCount(d.Headers[header.LostAlone]),
		Together: lostCount(d.Headers[header.LostTogether]), Ago: d.worker.dbClock.of(time.Now()).Sub(last)}, true
}

func lostCount(header string) int {
	n, _ := strconv.ParseUint(header, 10, 16) // producers may write any header
	return int(n)
}
