// Package inbox makes sure that a message from outside changes the database exactly once.
//
// Brokers, webhooks and outboxes of other services deliver at least once. After a timeout, a crash or a rebalance the
// same message arrives again, perhaps at another process, perhaps while the first delivery is still being processed.
// The inbox stores the key of the message in the transaction in which its handler writes. Both commit or neither does,
// and later deliveries with the same key are recognized.
//
// This page says what the inbox adds to package [workqueue], which documents the states of a row, leases, owner tokens
// and the transitions between states.
//
// # Keys
//
// Consumer, source and message id identify a message. The consumer is the part of an application that processes it: if
// two parts are interested in a message, each processes it once. The source is the system that issued the id: ids need
// to be unique within their source only. All three are compared byte for byte. The inbox depends on the quality of
// these ids. If the sender provides none, use something that identifies the message permanently, such as topic,
// partition and offset, or a hash of the body.
//
// # Processing at once
//
// [Inbox.Process] runs a function for a message, in a transaction:
//
//	result, err := box.Process(ctx, pool, inbox.Key{Consumer: "billing", Source: "shop", MessageID: id, Body: body},
//		func(ctx context.Context, tx pgx.Tx) error { return charge(ctx, tx, body) })
//
// [Inbox.Begin] takes the key in a transaction that is already open, of pgx, database/sql or sqlx. Use it to process
// several messages in one transaction, or in a transaction with other writes. Answer the sender according to the
// result:
//
//   - [Processed], [Duplicate]: acknowledge (HTTP 200). A Duplicate with status Failed is a dead letter; another
//     delivery would not change that.
//   - [InProgress]: do not acknowledge, and ask for another delivery (HTTP 503, with Retry-After if you like). The
//     process that works on the message may still fail.
//   - [HashMismatch]: the key was used before with other content. Investigate; another delivery does not help (HTTP
//     422).
//   - a [RefusedError]: the message has no id, or breaks a limit; another delivery does not help (HTTP 400).
//   - any other error: do not acknowledge (HTTP 500). The key is free, unless the error is [ErrCommitUnknown]: then the
//     next delivery finds out.
//
// [HTTPStatus] returns these numbers. Package inboxhttp is an HTTP handler that answers with them.
//
// If two processes receive the same message at the same time, one runs the function. The other gets InProgress, or
// Duplicate if the first has finished. Neither waits for the other. If the first process freezes, the server ends its
// transaction after it has been idle for [IdleTimeout], and the key is free again.
//
// # Processing later
//
// [Inbox.Receive] stores messages in an open transaction, and a [Worker] processes them. You can acknowledge a message
// as soon as it is stored, failures are retried with a backoff, and a message that cannot be processed is kept as a
// dead letter.
//
//	result, err := box.Receive(ctx, workqueue.SQL(tx), message) // then commit, then acknowledge
//
//	worker, err := inbox.NewWorker(pool, box, inbox.WorkerOptions{Consumer: "billing"})
//	worker.Handle("order.placed", func(ctx context.Context, tx pgx.Tx, m *inbox.Delivery) error {
//		return charge(ctx, tx, m.Payload)
//	})
//	err = worker.Run(ctx) // until ctx is cancelled
//
// The handler's transaction also settles the message. If its lease is lost, because the process was frozen and another
// one has taken over, the handler's writes are rolled back. A worker serves one consumer. Run any number of workers, in
// any number of processes, and run the reaper (package reaper) in at least one; without it, the messages of a crashed
// worker stay claimed. Failure, retries and dead letters are those of every table of package workqueue. A topic without
// a handler is a failed attempt.
//
// Both ways share the table. For Process, a message that Receive has stored is InProgress, and a Duplicate once it is
// processed. A duplicate never changes the stored message: it keeps its attempts, its payload and its place.
//
// # Payloads
//
// A payload is bytes, or a [Message].Value that [Options].Codec encodes. The default codec is JSON. A codec that
// encrypts binds the payload to the message's key (see [codec.KeyID]) and tenant. [codec.HandlerIn] turns a function of
// the decoded value into a handler. A payload that cannot be decoded is a failed attempt with a [codec.DecodeError],
// and a dead letter after the last attempt.
//
// The inbox compares hashes to detect another value under the same key. If the codec has a method Open(codec.Envelope,
// []byte) ([]byte, error), like that of package aesgcm, the hash is taken of the plaintext. The hash is stored
// unencrypted, see [Message].BodyHash. [Key].Body is bytes, to which no codec is applied.
//
// # Ordering
//
// Messages have no order. A source's messages are processed concurrently, and a message that failed is processed after
// later ones. A handler that needs an order has to establish it, for example by a version in the payload.
//
// # Exactly once
//
// What the handler writes through its transaction takes effect exactly once for each key, for as long as the key is
// kept. What it does elsewhere, such as an HTTP call or an e-mail, happens at least once. Send the message's key as the
// idempotency key, or enqueue the call in an outbox in the same transaction.
//
// # The dedup window
//
// A key is kept for [Options].DedupWindow after its message was processed. Then it is deleted, and the same id is a new
// message. The window therefore has to be longer than the time after which any source may deliver again. Only you know
// that time, so there is no default. The window must also cover the table's [RetryHorizon]. A message that is not yet
// processed keeps its key, however old it is. A dead letter keeps its key until it is redriven and processed, or until
// [Options].FailedRetention ends. A cancelled message keeps its key for the window, like a processed one.
//
// Payload and headers are removed earlier, after [Options].Retention. The remaining row is a tombstone with the key,
// the hash and the time. A reaper that is given [Inbox.Tables] does both, and so does [Inbox.Purge]. A service
// gives them to its reaper if it runs a [Worker]; if you only use Process or Begin, put them into the service's
// Options.Tables. A reaper that knows the table by [Spec] only removes payloads and deletes no keys, because it does
// not know the window.
//
// # Other languages
//
// The function inbox_begin(consumer, source, message_id [, body_hash, payload, id, topic]) is Begin: it returns the
// answer (processed, duplicate, in_progress, hash_mismatch), the row that holds the key, and the status of that row.
// inbox_strip(max_rows [, retention]) removes payloads. The role needs EXECUTE on these functions, also if it is used
// by a Go program.
package inbox
