// Package outbox writes messages in an application's own transaction and delivers them afterwards.
//
// A service that changes its database and then calls a broker, a web hook or another service can fail
// between the two. With an outbox it writes the message next to the change: both commit or neither does.
// A relay delivers the message from there until it has succeeded or has failed for good.
//
// This page says what the outbox adds to package [workqueue], which has the states of a row, leases,
// owner tokens and the transitions between them.
//
// # Writing
//
// [Outbox.Enqueue] takes an open transaction of pgx, database/sql or sqlx, and whatever wraps one of those:
//
//	box, err := outbox.Open(outbox.Options{}) // once, at the start
//	enqueued, err := box.Enqueue(ctx, workqueue.Pgx(tx), outbox.Message{Topic: "order.placed", Payload: body})
//	enqueued, err := box.Enqueue(ctx, workqueue.SQL(tx), messages...)
//
// A pool or a connection is no transaction and does not compile. The outbox never commits and never rolls
// back. Messages are validated before anything is written, see [workqueue.ItemError]. The table is made by
// `txwork migrate up` or package migrations.
//
// [Message].ScheduledAt postpones a message. It is compared with the database's clock, so a message is never
// early by that clock, whatever the application's says.
//
// # Payloads
//
// A payload is bytes, or a [Message].Value, which [Options].Codec encodes: JSON unless it is another. A codec that
// encrypts binds it to the message's id and tenant, so that it opens in its own row only. [codec.Handler] makes a
// handler of a function that takes the decoded value, [Delivery.Decode] is for those that look at something else
// first. What does not decode is a failed attempt with a [codec.DecodeError], and in the end a dead letter, which
// is kept with its bytes. See package [github.com/txwork/txwork/workqueue/codec].
//
// # Delivering
//
// A [Relay] claims messages and hands each to the handler of its topic, or to the handler of all other
// topics. Topics are compared byte for byte; there are no patterns.
//
//	relay, err := outbox.NewRelay(pool, box, outbox.RelayOptions{})
//	relay.Handle("order.placed", func(ctx context.Context, m *outbox.Delivery) error {
//		return broker.Publish(ctx, m.Topic, m.Payload)
//	})
//	err = relay.Run(ctx) // until ctx is cancelled
//
// No transaction is open while a handler runs, unless it opens one. Handlers run concurrently, by default
// [workqueue.DefaultConcurrency] of them in one relay, and must be safe for that. Run as many relays as you
// like, in as many processes; run the reaper (package reaper) in at least one, or the messages of a relay
// that crashed stay claimed.
//
// A relay hears of a commit at once, through LISTEN, and looks by itself every second. Behind a pooler in
// transaction mode set NoListen, or ListenConfig.
//
// # Ordering
//
// There is none by default. Messages are claimed roughly in the order in which they became due, but they are
// handled concurrently, a failed one is tried again after others, and of two transactions the one that
// enqueued first may commit last.
//
// With [Options].Ordering set to [PerKey] the messages of one [Message].Key are delivered one at a time, in the
// order in which their transactions commit, whatever fails, crashes or is tried again in between. A key that is
// held up never holds up another, and its messages cost the claims of others nothing. Transactions that write
// the same key take turns, so keep them short. [Options].OnFailure says what happens to the messages behind one that has
// failed for good. The order ends where the handler returns: a receiver that stores messages with inbox.Receive and
// processes them with a worker loses it, one that processes them at once with inbox.Process does not.
//
// # Joins
//
// [Outbox.StartJoin] writes messages that are delivered side by side and one that is delivered when all have
// been, or when they have not. A step counts in the transaction of its settle, whichever way it was settled, so
// the continuation is delivered exactly as often as a message is; nothing polls. See package join.
//
// # Exactly once, or not
//
// Delivery is at least once. A handler runs again for a message it has handled if its process dies, its
// lease is lost or its database goes away before the result is stored. Calls to other systems should
// carry [Delivery].ID as their idempotency key: it is the same on every attempt.
//
// What a handler writes to the same database through [Delivery.Tx] has its effect exactly once, because
// the writes and the settling of the message are one transaction.
//
// # Deduplication
//
// Of the messages with the same topic and the same [Message].DedupKey only the first is written. Enqueue
// returns its id for the others, whose payload, headers and due time are ignored. This holds within a
// call, within a transaction and across concurrent ones: a second transaction waits until the first has
// ended, and writes its message if that one was rolled back.
//
// A key is taken for as long as the row is there: until it is delivered or cancelled, and then for
// [Options].Retention; a dead letter holds its key until it is purged. With [Options].DeleteDone the
// key is free as soon as the message was delivered. A key needs to be unique within its topic only.
//
// # Failure
//
// An error or a panic of a handler is a failed attempt. It is recorded as the row's last error, and the
// message is due again after the backoff, until its attempts are used up; then it has status Failed, the
// dead letter, which is kept and can be redriven. Attempts are counted when a message is claimed, so one
// that kills its process ends, too. A handler says more by what it returns:
//
//   - [workqueue.Permanent]: Failed now, since another attempt would fail the same way
//   - [workqueue.RetryAfter]: a failed attempt, with a delay of its own
//   - [workqueue.Snooze]: not yet; the attempt does not count
//   - [workqueue.Cancelled]: ended as cancelled
//
// A message whose topic has no handler is a failed attempt with the error `no handler is registered for
// topic "…"`: another relay may know the topic, as in a rolling deploy, and if none does within the attempts the
// message is a dead letter.
//
// # Hooks, and platforms without a long-running process
//
// A relay with handlers by topic is a set of durable hooks: [Message].ScheduledAt is the earliest time of the first
// attempt, [Message].Retry the policy of the others, [Delivery].ID the idempotency key. [Relay.Drain] is a relay
// without its loop, a [workqueue.Processor]: [workqueue.Poll] drives it with a timer, [workqueue.Alarm] on
// platforms that have one alarm instead of processes, and [workqueue.Group] several of them at once.
//
// # Tracing
//
// The trace context of the enqueueing code travels in the message's headers (W3C traceparent and
// tracestate). The span in which a handler runs is linked to it; it is no child of it, since the
// producer's trace has ended by then.
package outbox
