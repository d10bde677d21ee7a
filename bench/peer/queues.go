package peer

import (
	"fmt"
	"sync/atomic"
)

// Queues are the queues into which a peer inserts by turns. Without names it has only its default one.
type Queues struct {
	Names []string
	turn  atomic.Int64
}

// NewQueues names the queues of a config.
func NewQueues(n int) *Queues {
	q := &Queues{}
	for i := range n {
		q.Names = append(q.Names, fmt.Sprintf("queue_%d", i))
	}
	return q
}

// Next returns the queue whose turn it is; empty is the default one.
func (q *Queues) Next() string {
	if len(q.Names) == 0 {
		return ""
	}
	return q.Names[int(q.turn.Add(1))%len(q.Names)]
}
