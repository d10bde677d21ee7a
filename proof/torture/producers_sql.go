//go:build unix

package torture

import (
	"context"
	"encoding/base64"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/proof/torture/sqlcrew"
	"github.com/txwork/txwork/timers"
)

// send, enqueue, set and store write the rows of a producer, by the library or by the SQL functions. The settings that
// are options of the domains in Go are arguments there.

func (p *producer) send(ctx context.Context, tx pgx.Tx, msgs []outbox.Message) error {
	rows := make([]sqlcrew.Object, len(msgs))
	for i, m := range msgs {
		rows[i] = sqlcrew.Object{"id": m.ID.String(), "topic": m.Topic, "payload_text": string(m.Payload),
			"max_attempts": attempts}
		if m.Key != "" {
			rows[i]["key"], rows[i]["on_failure"] = m.Key, "skip"
		}
	}
	_, err := sqlcrew.Write(ctx, tx, p.lab.schema, "outbox_enqueue", rows...)
	return err
}

func (p *producer) enqueue(ctx context.Context, tx pgx.Tx, inserts []jobs.Insert) (names []announced, err error) {
	rows := make([]sqlcrew.Object, len(inserts))
	for i, in := range inserts {
		rows[i] = sqlcrew.Object{"id": in.ID.String(), "kind": in.Args.Kind(), "args": in.Args,
			"max_attempts": attempts}
		if in.Delay > 0 {
			rows[i]["delay"] = in.Delay.Seconds()
		}
		if in.Unique != nil {
			rows[i]["unique_key"] = in.Unique.Key
		}
	}
	written, err := sqlcrew.Write(ctx, tx, p.lab.schema, "jobs_enqueue", rows...)
	for _, w := range written {
		if !w.Duplicate {
			names = append(names, announce("jobs", w.ID))
		}
	}
	return names, err
}

func (p *producer) set(ctx context.Context, tx pgx.Tx, set []timers.Timer) error {
	rows := make([]sqlcrew.Object, 0, len(set))
	for _, t := range set {
		rows = slices.DeleteFunc(rows, func(o sqlcrew.Object) bool { return o["key"] == t.Key })
		rows = append(rows, sqlcrew.Object{"key": t.Key, "topic": t.Topic, "delay": t.Delay.Seconds(),
			"payload_text": string(t.Payload), "max_attempts": attempts})
	}
	_, err := sqlcrew.Write(ctx, tx, p.lab.schema, "timers_set", rows...)
	return err
}

func (p *producer) store(ctx context.Context, tx pgx.Tx, msgs []inbox.Message) (names []announced, err error) {
	rows := make([]sqlcrew.Object, len(msgs))
	for i, m := range msgs {
		rows[i] = sqlcrew.Object{"consumer": m.Consumer, "source": m.Source, "message_id": m.MessageID,
			"payload_text": string(m.Payload), "body_hash_base64": base64.StdEncoding.EncodeToString(m.BodyHash),
			"max_attempts": attempts}
	}
	written, err := sqlcrew.Write(ctx, tx, p.lab.schema, "inbox_receive", rows...)
	for i, w := range written {
		if !w.Duplicate {
			names = append(names, announce("inbox", msgs[i].MessageID))
		}
	}
	return names, err
}

// begin processes a message in a transaction that inbox_begin has begun.
func (p *producer) begin(ctx context.Context, name string, fail bool) {
	tx, err := p.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	mine, err := sqlcrew.Begin(ctx, tx, p.lab.schema, consumer, topic, name, sameHash)
	if err != nil || !mine {
		return
	}
	_, err = tx.Exec(ctx, "INSERT INTO "+p.lab.schema+".effects (tbl, name, attempt) VALUES ('inbox', $1, 1)", name)
	if err != nil {
		return
	}
	names := []announced{announce("inbox", name)}
	id := p.announce(names)
	if fail {
		p.settle(id, names, rolledBack(tx.Rollback(ctx)))
		return
	}
	p.settle(id, names, outcomeOfCommit(tx.Commit(ctx)))
}
