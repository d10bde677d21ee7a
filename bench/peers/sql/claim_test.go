package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/bench/protocol"
	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/internal/pgtest"
)

// If the limit were slower than it could be, everything compared with it would look better. With too little room in the
// pages, claims would move rows to other pages and write every index again.
func TestAllClaimsAreHeapOnly(t *testing.T) {
	server, err := localpg.Start(t.Context(), localpg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	const jobs = 5000
	c := protocol.Config{DatabaseURL: server.URL(), Deleted: true, Connections: 2}
	drain(t, c, jobs)

	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var updates, heapOnly int
	for begun := time.Now(); updates < jobs; time.Sleep(50 * time.Millisecond) { // sessions report when they end
		const counters = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'job'"
		if err := conn.QueryRow(t.Context(), counters).Scan(&updates, &heapOnly); err != nil {
			t.Fatal(err)
		}
		if time.Since(begun) > pgtest.Patience {
			t.Fatalf("%d updates are counted, want the %d claims", updates, jobs)
		}
	}
	if updates != jobs || heapOnly != jobs {
		t.Errorf("%d updates, %d of them heap-only; want %d each, one a claim", updates, heapOnly, jobs)
	}
}

// drain writes jobs and works until every one is handled and acked.
func drain(t *testing.T, c protocol.Config, jobs int) {
	t.Helper()
	if err := prepare(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s, err := open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.InsertMany(t.Context(), slices.Repeat([]protocol.Body{protocol.NewBody(30)}, jobs)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	handled := make(chan struct{}, jobs)
	go func() {
		defer stop()
		for range jobs {
			<-handled
		}
	}()
	if err := s.Work(ctx, func() { handled <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
}
