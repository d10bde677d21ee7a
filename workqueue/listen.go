package workqueue

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// listenerHeartbeat is how long the listener believes a silent connection: a peer that vanished without
// a word would otherwise never be missed. The worker polls all the while.
const listenerHeartbeat = 30 * time.Second

// listen wakes the worker on notifications until ctx is cancelled, reconnecting as needed.
func (w *Worker) listen(ctx context.Context) {
	pause, listened, told := minErrorPause, time.Now(), false
	for ctx.Err() == nil {
		start := time.Now()
		err := w.listenOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(start) > listenerHeartbeat {
			pause = minErrorPause
		}
		if time.Since(start) > time.Second { // it listened, since to be refused takes less
			listened, told = time.Now(), false
		}
		if time.Since(listened) > maxErrorPause && !told && !w.outage.ongoing() { // in an outage the statements fail, too
			told = true
			w.table.telemetry.logger.LogAttrs(ctx, slog.LevelError, "listening fails; the worker polls", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
			pause = min(pause*2, maxErrorPause)
		}
	}
}

func (w *Worker) listenOnce(ctx context.Context) (err error) {
	defer recoverTo(&err)
	conn, err := w.connectListener(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "LISTEN "+quote(w.table.spec.channel())); err != nil {
		return err
	}
	w.missedNotifications()
	for {
		n, err := waitForNotification(ctx, conn)
		if err != nil {
			return err
		}
		if n != nil {
			w.notified(n.Payload)
		}
	}
}

// connectListener opens the listener's own connection, the way the pool would, since a pool may take
// its connections back and a transaction pooler would not deliver to them.
func (w *Worker) connectListener(ctx context.Context) (*pgx.Conn, error) {
	if w.options.ListenConfig != nil {
		return pgx.ConnectConfig(ctx, w.options.ListenConfig)
	}
	config := w.pool.Config()
	if config.BeforeConnect != nil { // fresh credentials, for example
		if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, config.ConnConfig)
}

// waitForNotification returns a notification, or nothing after a heartbeat that was answered on this
// very connection.
func waitForNotification(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	waiting, cancel := context.WithTimeout(ctx, listenerHeartbeat)
	defer cancel()
	n, err := conn.WaitForNotification(waiting)
	if err == nil {
		return n, nil
	}
	if waiting.Err() == nil || ctx.Err() != nil || conn.IsClosed() {
		return nil, err
	}
	beat, cancelBeat := context.WithTimeout(ctx, listenerHeartbeat/3)
	defer cancelBeat()
	return nil, conn.Ping(beat)
}

// cancelPayload announces that a running row was cancelled.
const cancelPayload = "cancel"

// notified acts on one payload: the earliest due time that was written, in microseconds.
func (w *Worker) notified(payload string) {
	if payload == cancelPayload {
		w.cancelsSeen.Add(1)
		w.renewNow()
		return
	}
	at, isNote := strings.CutPrefix(payload, notePayload)
	micros, err := strconv.ParseInt(at, 10, 64)
	switch {
	case err != nil || micros < 0: // anybody may send anything: no row is due before 1970
		w.missedNotifications()
	case isNote:
		w.folder.announced(time.UnixMicro(micros))
	default:
		w.claimer.rewind(time.UnixMicro(micros))
		w.poll.Wake()
	}
}

// missedNotifications looks for whatever may have been announced while nobody listened.
func (w *Worker) missedNotifications() {
	w.claimer.sweepNow()
	w.folder.missed()
	w.poll.Wake()
	w.cancelsSeen.Add(1)
	w.renewNow()
}

// renewNow renews every lease at once, which tells of the rows that were cancelled. It never blocks.
func (w *Worker) renewNow() {
	select {
	case w.cancels <- struct{}{}:
	default:
	}
}
