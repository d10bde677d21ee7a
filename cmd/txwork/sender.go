package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// sendChunkBytes is how much of a batch is kept in memory. A larger batch is sent to the server in chunks, within one
// transaction.
const sendChunkBytes = 16 << 20

// A sender turns lines into messages and commits them in batches.
type sender struct {
	sendOptions
	pool     *pgxpool.Pool
	outbox   *outbox.Outbox
	stderr   io.Writer
	progress *progress

	batch batch
	done  int // the last line of which it is certain whether it was written
	sum   sendSummary
}

// A batch is what one transaction is to hold.
type batch struct {
	tx         pgx.Tx // nil until something has been sent to the server
	first      int    // its first line
	last       int
	lines      int
	duplicates int
	pending    []pendingMessage // not sent to the server yet
	bytes      int              // size of pending
}

type pendingMessage struct {
	outbox.Message
	line int
}

// A badLine is a line that cannot be a message.
type badLine struct {
	number int
	reason error
}

func (e *badLine) Error() string { return fmt.Sprintf("line %d %s", e.number, detail(e.reason)) }

// detail returns the reason of a refusal, without the prefix of the library's errors.
func detail(err error) string {
	if invalid, ok := errors.AsType[*workqueue.InvalidError](err); ok {
		return fmt.Sprintf("is refused: its %s %s", invalid.Field, invalid.Reason)
	}
	return err.Error()
}

// sumUp writes the lines, and fills in the summary.
func (s *sender) sumUp(ctx context.Context, lines <-chan line) error {
	begun := time.Now()
	err := s.sendAll(ctx, lines)
	s.progress.clear()
	s.sum.Seconds = time.Since(begun).Seconds()
	if err != nil {
		s.sum.Error = err.Error()
		s.sum.ResumeFrom = s.done + 1
	}
	return err
}

// sendAll writes the lines in batches. On an error, the open batch is rolled back.
func (s *sender) sendAll(ctx context.Context, lines <-chan line) error {
	err := s.eachLine(ctx, lines)
	if s.batch.tx != nil {
		s.batch.tx.Rollback(context.WithoutCancel(ctx)) // no effect after a commit
	}
	if err != nil {
		return s.explain(err)
	}
	return nil
}

func (s *sender) eachLine(ctx context.Context, lines <-chan line) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case l, ok := <-lines:
			if !ok {
				return s.commit(ctx)
			}
			if err := s.take(ctx, l); err != nil {
				return err
			}
		}
	}
}

// take adds a line to the batch, and commits the batch when it is full.
func (s *sender) take(ctx context.Context, l line) error {
	if l.failure != nil {
		return fmt.Errorf("reading line %d: %w", l.number, l.failure)
	}
	s.batch.note(l.number)
	s.progress.set(l.read)
	m, err := s.message(l)
	if err != nil {
		return s.refuse(&badLine{l.number, err})
	}
	s.batch.add(m, l.number)
	if s.batch.bytes >= sendChunkBytes {
		if err := s.flush(ctx); err != nil {
			return err
		}
	}
	if s.batch.lines == s.sendOptions.batch {
		return s.commit(ctx)
	}
	return nil
}

func (b *batch) note(line int) {
	if b.first == 0 {
		b.first = line
	}
	b.last = line
}

func (b *batch) add(m outbox.Message, line int) {
	b.lines++
	b.bytes += len(m.Payload)
	b.pending = append(b.pending, pendingMessage{m, line})
}

// refuse reports a bad line and goes on if --skip-bad was given. Otherwise the bad line ends the command.
func (s *sender) refuse(bad *badLine) error {
	if !s.skipBad {
		return bad
	}
	s.progress.clear()
	fmt.Fprintf(s.stderr, "txwork: skipped: %s\n", bad)
	s.sum.Skipped++
	return nil
}

// message makes a message from a line. It chooses the id itself: if the outbox returns another one, the message is a
// duplicate.
func (s *sender) message(l line) (outbox.Message, error) {
	if l.bad != nil {
		return outbox.Message{}, l.bad
	}
	id, err := uuid.NewV7()
	if err != nil {
		return outbox.Message{}, err
	}
	m := outbox.Message{ID: id, Topic: s.topic, Payload: l.text}
	if s.keyField == "" && s.dedupField == "" {
		return m, nil
	}
	m.Key, m.DedupKey, err = s.keys(l.text)
	return m, err
}

// keys returns the keys from the fields of a line that the flags name.
func (s *sender) keys(text []byte) (key, dedup string, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		return "", "", errors.New("is not a JSON object, so it has no field to take a key from")
	}
	if key, err = textField(fields, s.keyField); err != nil {
		return "", "", err
	}
	dedup, err = textField(fields, s.dedupField)
	return key, dedup, err
}

// textField reads a field as text. A number is taken exactly as it is written.
func textField(fields map[string]json.RawMessage, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	raw, ok := fields[name]
	if !ok {
		return "", fmt.Errorf("has no field %q", name)
	}
	raw = bytes.TrimSpace(raw)
	switch c := raw[0]; {
	case c == '-' || c >= '0' && c <= '9':
		return string(raw), nil
	case c != '"':
		return "", fmt.Errorf("has a field %q that is neither text nor a number", name)
	case postgres.HalfPair(raw):
		return "", fmt.Errorf("has a field %q with half of a surrogate pair, which is no character", name)
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", err
	}
	if text == "" {
		return "", fmt.Errorf("has an empty field %q", name)
	}
	return text, nil
}

// flush sends the pending messages to the server, in the batch's transaction. The outbox validates all of them before
// it writes the first, so a message that it refuses can be left out and the others sent again.
func (s *sender) flush(ctx context.Context) error {
	for len(s.batch.pending) > 0 {
		err := s.enqueue(ctx)
		if err == nil {
			break
		}
		var refused *workqueue.ItemError
		if !errors.As(err, &refused) {
			return err
		}
		if err := s.refuse(&badLine{s.batch.pending[refused.Index].line, refused.Err}); err != nil {
			return err
		}
		s.batch.pending = slices.Delete(s.batch.pending, refused.Index, refused.Index+1)
		s.batch.lines--
	}
	s.batch.pending, s.batch.bytes = nil, 0
	return nil
}

func (s *sender) enqueue(ctx context.Context) (err error) {
	b := &s.batch
	if b.tx == nil {
		if b.tx, err = s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted,
			AccessMode: pgx.ReadWrite}); err != nil {
			return err
		}
	}
	messages := make([]outbox.Message, len(b.pending))
	for i, m := range b.pending {
		messages[i] = m.Message
	}
	enqueued, err := s.outbox.EnqueueMany(ctx, workqueue.Pgx(b.tx), messages...)
	for _, e := range enqueued {
		if e.Duplicate {
			b.duplicates++
		}
	}
	return err
}

// commit commits the batch.
func (s *sender) commit(ctx context.Context) error {
	if err := s.flush(ctx); err != nil {
		return err
	}
	if s.batch.tx != nil {
		if err := commit(ctx, s.batch.tx); err != nil {
			return err
		}
	}
	if s.batch.lines > 0 {
		s.sum.Batches++
	}
	s.sum.Sent += s.batch.lines - s.batch.duplicates
	s.sum.Duplicates += s.batch.duplicates
	s.done = max(s.done, s.batch.last)
	s.batch = batch{}
	return nil
}

// errUnknown says that the reply to a commit was lost, so it may have succeeded.
var errUnknown = errors.New("the reply to the commit was lost")

// commit tells a commit that certainly did not happen from one that the server may have carried out. SafeToRetry, the
// driver's test for errors before anything was sent, cannot tell: it is also true of a lost reply.
func commit(ctx context.Context, tx pgx.Tx) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if tx.Conn().IsClosed() {
		return pgconn.ErrConnClosed
	}
	err := tx.Commit(ctx)
	if err == nil || refused(err) {
		return err
	}
	return fmt.Errorf("%w: %w", errUnknown, err)
}

// refused tells whether the server reported that it did not commit. If the error also ended the session (FATAL), the
// commit may have happened before.
func refused(err error) bool {
	var pg *pgconn.PgError
	return errors.Is(err, pgx.ErrTxCommitRollback) || errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR"
}

// explain says which part of the input was written, and where to resume.
func (s *sender) explain(err error) error {
	written := "nothing was written before"
	if s.done > 0 {
		written = fmt.Sprintf("the lines up to %d are committed (%s)", s.done, plural(s.sum.Sent, "message"))
	}
	batch := "nothing of its batch was written"
	if !errors.As(err, new(*badLine)) && s.batch.first > 0 {
		batch = fmt.Sprintf("nothing of lines %d to %d was written", s.batch.first, s.batch.last)
	}
	if errors.Is(err, errUnknown) {
		batch = fmt.Sprintf("whether lines %d to %d were written is unknown, so look before you resume", s.batch.first,
			s.batch.last)
	}
	return fmt.Errorf("%w: %s, %s: resume from line %d (tail -n +%d)", explain(err), batch, written, s.done+1, s.done+1)
}
