// Command sql is the limit of what bare SQL can do: the smallest table with which jobs are claimed under a lease and
// settled under an owner token, and the fewest statements that do it, in large batches and without any framework. Like
// the table in the measurements on which txwork's storage design is based, it has ids made by the client and due times.
// It can neither delay nor retry jobs, so it is not a queue to use.
package main

import (
	"context"

	"github.com/txwork/txwork/bench/peer"
	"github.com/txwork/txwork/bench/protocol"
)

func main() {
	peer.Main(peer.Peer{Describe: describe, Prepare: prepare, Open: open})
}

// profile is the only profile.
const profile = "bench"

func describe(protocol.Config) protocol.Description {
	return protocol.Description{
		Name:    "bare SQL",
		Version: "with pgx " + peer.ModuleVersion("github.com/jackc/pgx/v5"),
		Profiles: map[string]string{profile: "1 claimer, 2 ackers, batches of 1,000; NOTIFY in every " +
			"transaction that inserts"},
		Retained:      true,
		Deleted:       true,
		UnfinishedSQL: "SELECT count(*) FROM job WHERE done_at IS NULL",
	}
}

func prepare(ctx context.Context, c protocol.Config) error { return peer.Exec(ctx, c, schema) }

func open(ctx context.Context, c protocol.Config) (peer.Session, error) {
	pool, err := peer.Pool(ctx, c)
	if err != nil {
		return nil, err
	}
	ack := ackRetained
	if c.Deleted {
		ack = ackDeleted
	}
	return &session{pool: pool, ack: ack}, nil
}
