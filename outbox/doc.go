// Package outbox writes messages in an application's own transaction and delivers them afterwards.
//
// A service that changes its database and then calls a broker, a webhook or another service can fail between the two.
// With an outbox it writes the message in the same transaction as the change: both commit or neither does. A relay then
// delivers the message, and retries until that succeeds or the attempts are used up.
//
// This page says what the outbox adds to package [workqueue], which documents the states of a row, leases, owner tokens
// and the transitions between states.
//
// # Writing
//
// [Outbox.Enqueue] takes an open transaction of pgx, database/sql or sqlx, or of a library that wraps one of them:
//
//	box, err := outbox.Open(outbox.Options{}) // once, at startup
//	enqueued, err := box.Enqueue(ctx, workqueue.Pgx(tx), outbox.Message{Topic: "order.placed", Payload: body})
//	enqueued, err := box.EnqueueMany(ctx, workqueue.SQL(tx), messages...)
//
// Passing a pool or a connection instead of a transaction does not compile. The outbox never commits and never rolls
// back. It validates all messages before it writes any, see [workqueue.ItemError]. Create the table with
// `txwork migrate up` or package migrations.
//
// [Message].ScheduledAt postpones a message. It is compared with the database's clock, so a message is never delivered
// early by that clock, whatever the application's clock says.
//
// # Payloads
//
// A payload is bytes, or a [Message].Value that [Options].Codec encodes. The default codec is JSON. A codec that
// encrypts binds the payload to the message's id and tenant, so it can only be decrypted in its own row.
// [codec.Handler] turns a function of the decoded value into a handler. [Delivery.Decode] is for handlers that inspect
// the message before they decode it. A payload that cannot be decoded is a failed attempt with a [codec.DecodeError].
// After the last attempt it is a dead letter that keeps its bytes. See package
// [github.com/txwork/txwork/workqueue/codec].
//
// # Delivering
//
// A [Relay] claims messages and passes each to the handler of its topic, or to the handler of all other topics. Topics
// are compared byte for byte; there are no patterns.
//
//	relay, err := outbox.NewRelay(pool, box, outbox.RelayOptions{})
//	relay.Handle("order.placed", func(ctx context.Context, m *outbox.Delivery) error {
//		return broker.Publish(ctx, m.Topic, m.Payload)
//	})
//	err = relay.Run(ctx) // until ctx is cancelled
//
// No transaction is open while a handler runs, unless the handler opens one. Handlers run concurrently, by default
// [workqueue.DefaultConcurrency] of them in one relay, and must be safe for that. Run any number of relays, in any
// number of processes, and run the reaper (package reaper) in at least one; without it, the messages of a crashed relay
// stay claimed.
//
// A relay is notified of a commit through LISTEN, and also polls every second. Behind a pooler in transaction mode, set
// NoListen or ListenConfig.
//
// # Ordering
//
// By default messages have no order. They are claimed roughly in the order in which they became due. But they are
// handled concurrently, a message that failed is retried after others, and of two transactions the one that enqueued
// first may commit last.
//
// With [Options].Ordering set to [PerKey], messages with the same [Message].Key are delivered one at a time, in the
// order in which their transactions commit, whatever fails, crashes or is retried in between. A blocked key never
// delays another, and its waiting messages do not make other claims more expensive. Transactions that write the same
// key take turns, so keep them short. [Options].OnFailure decides what happens to the messages behind a dead letter.
// The order ends where the handler returns: a receiver that stores messages with inbox.Receive and processes them with
// a worker loses the order, and one that processes them at once with inbox.Process keeps it.
//
// # A log
//
// With [Options].Storage set to [Log], a message is written once, for any number of subscriptions, and never updated.
// Writing is the same. What a log does not do is refused by name, and [Log] says what it does otherwise. Its tables are
// those of the domain log of package migrations, which a schema has only if it is named. [Outbox.Move] moves an outbox
// of rows to a log while it runs.
//
// # Joins
//
// [Outbox.StartJoin] writes messages that are delivered concurrently, and one that is delivered when all of them have
// succeeded, or another when they have not. A step is recorded in the transaction that settles it, by whichever way it
// is settled, so the continuation is delivered exactly as often as any message, and no polling is involved. See package
// join.
//
// # Delivery guarantees
//
// Delivery is at least once. A handler runs again for a message that it has already handled if its process dies, its
// lease is lost or the database becomes unavailable before the result is stored. Send [Delivery].ID as the idempotency
// key of calls to other systems: it is the same on every attempt.
//
// What a handler writes to the same database through [Delivery.Tx] takes effect exactly once, because the writes and
// the settle of the message are one transaction.
//
// # Deduplication
//
// Of several messages with the same topic and the same [Message].DedupKey, only the first is written. For the others
// Enqueue returns the id of the first, and ignores their payload, headers and due time. This holds within a call,
// within a transaction and across concurrent transactions: a second transaction waits until the first has ended, and
// writes its message if the first was rolled back.
//
// A key is taken for as long as its row exists: until the message is delivered or cancelled, and then for
// [Options].Retention. A dead letter keeps its key until it is purged. With [Options].DeleteDone the key is free as
// soon as the message is delivered. In a log it is free when all subscriptions have passed the message, after a week at
// the earliest. A key needs to be unique within its topic only.
//
// # Failure
//
// An error or a panic of a handler is a failed attempt. It is stored as the row's last error, and the message is due
// again after the backoff, until its attempts are used up. Then its status is Failed: a dead letter, which is kept and
// can be redriven. Attempts are counted when a message is claimed, so a message that crashes its process is not retried
// for ever. Handlers return other outcomes as errors:
//
//   - [workqueue.Permanent]: Failed at once, because another attempt would fail in the same way
//   - [workqueue.RetryAfter]: a failed attempt, with a delay that the handler chooses
//   - [workqueue.Snooze]: not yet; the attempt does not count
//   - [workqueue.Cancelled]: ended as cancelled
//   - [workqueue.Unavailable]: the destination of the topic cannot be reached at all, so the topic rests; the attempt
//     does not count
//
// [Relay.HandleBatch] is for handlers that deliver several messages in one call, with a result for each. If a call
// fails, halves of it find the messages that fail alone.
//
// If a topic has no handler, the attempt fails with `no handler is registered for topic "…"`. Another relay may have
// the handler, for example during a rolling deployment. If none has it before the attempts are used up, the message is
// a dead letter.
//
// # Platforms without long-running processes
//
// A relay with handlers by topic can serve as a set of durable hooks: [Message].ScheduledAt is the earliest time of the
// first attempt, [Message].Retry the backoff of the others, and [Delivery].ID the idempotency key. [Relay.Drain]
// returns the relay without its loop. Package workqueue/dispatch drives it: a Poll calls it at intervals, an Alarm is
// for platforms that offer one alarm instead of processes, and a Group combines several.
//
// # Tracing
//
// The trace context of the enqueueing code travels in the message's headers (W3C traceparent and tracestate). The span
// in which a handler runs has a link to it. It is not a child of it, because the producer's trace has usually ended by
// then.
package outbox
