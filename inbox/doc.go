// Package inbox gives messages that come from outside their effect on the database exactly once.
//
// A broker, a web hook or another service's outbox delivers at least once: after a timeout, a crash or a
// rebalance the same message comes again, perhaps to another process, perhaps while the first is still at
// work on it. With an inbox the message's key is written in the transaction in which its handler writes:
// both commit or neither does, and whoever comes later with the same key is told so.
//
// This page says what the inbox adds to package [workqueue], which has the states of a row, leases,
// owner tokens and the transitions between them.
//
// # Keys
//
// A message is identified by consumer, source and message id. The consumer is who processes it: a message
// that two parts of an application are interested in is processed once by each. The source is who issued
// the id: ids need to be unique within their source only. All three are compared byte for byte. An inbox
// is as good as its ids; where the sender gives none, use what names the message for good, such as
// topic, partition and offset, or the hash of the body.
//
// # Processing at once
//
// [Inbox.Process] runs a function for a message, in a transaction:
//
//	result, err := box.Process(ctx, pool, inbox.Key{Consumer: "billing", Source: "shop", MessageID: id, Body: body},
//		func(ctx context.Context, tx pgx.Tx) error { return charge(ctx, tx, body) })
//
// [Inbox.Begin] is for a transaction that is open already, of pgx, database/sql or sqlx: several messages of
// a batch, say, or one that writes elsewhere too. What to tell the sender:
//
//   - [Processed], [Duplicate]: acknowledge (HTTP 200). A Duplicate with status Failed is a dead letter;
//     delivering it again changes nothing.
//   - [InProgress]: do not acknowledge; have it delivered again (HTTP 503, with Retry-After if you like). Whoever is
//     at work on it may fail yet.
//   - [HashMismatch]: one key, two contents. Look into it; to be delivered again does not help (HTTP 422).
//   - a [RefusedError]: the message has no id, or one that cannot be kept; to be delivered again does not help (HTTP 400).
//   - any other error: do not acknowledge (HTTP 500). The key is free, unless it is an [ErrCommitUnknown]: then the
//     next delivery will tell.
//
// [HTTPStatus] has these numbers.
//
// Of two processes that are handed the same message at once, one runs and the other is told InProgress, or
// Duplicate if the first has finished. Neither waits for the other. Should the first freeze, the server ends its
// transaction when that has been idle for [HeldAtMost], and the key is free again.
//
// # Processing later
//
// [Inbox.Receive] stores messages in an open transaction, and a [Worker] processes them: the sender is answered
// at once, failures are retried with a backoff, and what cannot be processed stays as a dead letter.
//
//	results, err := box.Receive(ctx, workqueue.SQL(tx), messages...) // then commit, then acknowledge
//
//	worker, err := inbox.NewWorker(pool, box, inbox.WorkerOptions{Consumer: "billing"})
//	worker.Handle("order.placed", func(ctx context.Context, tx pgx.Tx, m *inbox.Delivery) error {
//		return charge(ctx, tx, m.Payload)
//	})
//	err = worker.Run(ctx) // until ctx is cancelled
//
// The handler's transaction is the one that settles the message: if its lease is lost meanwhile, because the
// process was frozen and another has taken over, its writes are rolled back. A worker serves one consumer;
// run as many as you like, in as many processes, and run the reaper (package reaper) in at least one, or the
// messages of a worker that crashed stay claimed. Failure, retries and dead letters are those of every
// table of package workqueue; a topic without a handler is a failed attempt.
//
// Both ways share the table: a message that Receive has stored is InProgress, later a Duplicate, to Process.
// A duplicate never changes the message that is there: not its attempts, not its payload, not its place.
//
// # Payloads
//
// A payload is bytes, or a [Message].Value, which [Options].Codec encodes: JSON unless it is another. A codec that
// encrypts binds it to the message's key, see [codec.KeyID], and tenant. [codec.HandlerIn] makes a handler of a
// function that takes the decoded value. What does not decode is a failed attempt with a [codec.DecodeError], and in
// the end a dead letter. The hash by which a value is told from another of the same key is that of what was
// encrypted, where the codec has a method Open(codec.Envelope, []byte) ([]byte, error), as that of package aesgcm;
// it is stored as it is, see [Message].BodyHash. [Key].Body is bytes, and no codec touches it.
//
// # Ordering
//
// There is none. A source's messages are processed concurrently, and a failed one after others. A handler
// that needs order has to establish it, for example by a version in the payload.
//
// # Exactly once, or not
//
// What the handler writes through its transaction happens exactly once for each key, for as long as the key
// is kept. What it does elsewhere, an HTTP call or an e-mail, happens at least once: give it the message's
// key as idempotency key, or write it into an outbox in the same transaction.
//
// # The dedup window
//
// A key is kept for [Options].DedupWindow after its message was processed, then it is deleted and the same
// id is a new message. So the window has to be longer than any source may wait before it delivers again;
// only you know that, and there is no default. It is also held against the table's [RetryHorizon]. A message
// that is not yet processed keeps its key however old it is, and a dead letter until it is redriven and
// processed, or until [Options].FailedRetention. One that was cancelled keeps it for the window, like one that was processed.
//
// Payload and headers go earlier, after [Options].Retention; what is left is a tombstone: the key, the hash,
// the time. A reaper that is given [Inbox.Tables] does both, as does [Inbox.Purge]. A reaper that knows the
// table by [Spec] only strips payloads and deletes no keys, because it does not know the window.
//
// # Other languages
//
// The function inbox_begin(consumer, source, message_id [, body_hash, payload, id]) is Begin: it returns the
// answer (processed, duplicate, in_progress, hash_mismatch), the row that holds the key, and its status.
// inbox_strip(max_rows [, retention]) strips payloads. The role needs EXECUTE on them, as does that of a Go
// program.
package inbox
