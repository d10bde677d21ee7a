package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

func (c config) payload() string {
	return `{"p":"` + strings.Repeat("x", max(0, c.PayloadBytes-len(`{"p":""}`))) + `"}`
}

// fill measures only the inserts; the ticker normally belongs to another process.
func fill(ctx context.Context, c config) error {
	p, err := c.profile()
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, c.DatabaseURL)
	if err != nil {
		return err
	}
	defer hangUp(conn)
	payloads := slices.Repeat([]string{c.payload()}, max(1, c.Batch))
	var took time.Duration
	for left := c.Jobs; left > 0; left -= len(payloads) {
		payloads = payloads[:min(left, len(payloads))]
		begun := time.Now()
		if err := insertMany(ctx, conn, payloads); err != nil {
			return err
		}
		took += time.Since(begun)
		if !p.tickFill {
			continue
		}
		if err := tick(ctx, conn); err != nil {
			return err
		}
	}
	return say(map[string]any{"event": "filled", "jobs": c.Jobs, "seconds": took.Seconds()})
}

func single(ctx context.Context, c config) error {
	conns, err := connect(ctx, c)
	defer func() { hangUpAll(conns) }()
	if err != nil {
		return err
	}
	written := make([]int, len(conns))
	errs := make([]error, len(conns))
	begun := time.Now()
	end := begun.Add(time.Duration(c.Seconds * float64(time.Second)))
	var group sync.WaitGroup
	for i, conn := range conns {
		group.Go(func() { written[i], errs[i] = insertUntil(ctx, conn, end, c.payload()) })
	}
	group.Wait()
	seconds, jobs := time.Since(begun).Seconds(), 0
	for i, n := range written {
		if errs[i] != nil {
			return errs[i]
		}
		jobs += n
	}
	return say(map[string]any{"event": "filled", "jobs": jobs, "seconds": seconds})
}

// insertUntil inserts one event a transaction and returns how many.
func insertUntil(ctx context.Context, conn *pgx.Conn, end time.Time, payload string) (written int, err error) {
	for time.Now().Before(end) {
		if err := insertOne(ctx, conn, payload); err != nil {
			return written, err
		}
		written++
	}
	return written, nil
}

func connect(ctx context.Context, c config) (conns []*pgx.Conn, err error) {
	for range max(1, c.Connections) {
		conn, err := pgx.Connect(ctx, c.DatabaseURL)
		if err != nil {
			return conns, err
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

func hangUpAll(conns []*pgx.Conn) {
	for _, conn := range conns {
		hangUp(conn)
	}
}
