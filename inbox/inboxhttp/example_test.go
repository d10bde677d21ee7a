package inboxhttp_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/inbox/inboxhttp"
	"github.com/txwork/txwork/internal/localpg"
	"github.com/txwork/txwork/workqueue/codec"
)

// A sender that delivers a message twice gets two answers, and is billed once.
func ExampleProcess() {
	pool, schema, closePool := exampleDatabase() // with the tables of the migrations, and one of bills
	defer closePool()
	box, err := inbox.Open(inbox.Options{Schema: schema, DedupWindow: 30 * 24 * time.Hour})
	if err != nil {
		log.Fatal(err)
	}

	bill := func(ctx context.Context, tx pgx.Tx, m *inboxhttp.Message) error {
		_, err := tx.Exec(ctx, "INSERT INTO bills VALUES ($1)", string(m.Body))
		return err
	}
	handler, err := inboxhttp.Process(pool, box, inboxhttp.Options{Consumer: "billing", Source: "shop"}, bill)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /orders", handler)
	server := httptest.NewServer(mux)
	defer server.Close()

	for range 2 {
		request, err := http.NewRequest(http.MethodPost, server.URL+"/orders", strings.NewReader("order 7"))
		if err != nil {
			log.Fatal(err)
		}
		request.Header.Set("Idempotency-Key", "order-7")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			log.Fatal(err)
		}
		answer, _ := io.ReadAll(response.Body)
		response.Body.Close()
		fmt.Print(response.StatusCode, " ", string(answer))
	}
	// Output:
	// 200 processed
	// 200 duplicate
}

// The handler stores messages for a worker. The sender's path names the topic.
func ExampleReceive() {
	route := func(mux *http.ServeMux, pool *pgxpool.Pool, box *inbox.Inbox) error {
		handler, err := inboxhttp.Receive(pool, box, inboxhttp.ReceiveOptions{
			Options: inboxhttp.Options{Consumer: "billing", Source: "shop",
				Topic: func(r *http.Request) string { return r.PathValue("topic") }},
			KeepHeaders: []string{"content-type", "x-tenant"},
		})
		if err != nil {
			return err
		}
		mux.Handle("POST /events/{topic}", handler)
		return nil
	}
	_ = route
}

// A router passes each message to the handler of the topic that the sender's outbox has given it.
func ExampleRouter() {
	type Refund struct {
		Order string
		Cents int
	}
	bill := func(ctx context.Context, tx pgx.Tx, m *inboxhttp.Message) error {
		_, err := tx.Exec(ctx, "INSERT INTO bills VALUES ($1)", string(m.Body))
		return err
	}
	refund := func(ctx context.Context, tx pgx.Tx, _ *inboxhttp.Message, r Refund) error {
		_, err := tx.Exec(ctx, "DELETE FROM bills WHERE what = $1", r.Order)
		return err
	}
	route := func(mux *http.ServeMux, pool *pgxpool.Pool, box *inbox.Inbox) error {
		router, err := inboxhttp.NewRouter(pool, box, inboxhttp.Options{Consumer: "billing", Source: "shop"})
		if err != nil {
			return err
		}
		router.Handle("order.placed", bill)
		router.Handle("order.refunded", codec.HandlerIn(refund)) // decodes the body as JSON
		mux.Handle("POST /orders", router)
		return nil
	}
	_ = route
}

// exampleDatabase returns what the examples need: a pool and a schema, on a server that ends with the process.
func exampleDatabase() (pool *pgxpool.Pool, schema string, closePool func()) {
	ctx := context.Background()
	url := os.Getenv(localpg.DatabaseURLEnv)
	if url == "" {
		server, err := localpg.Start(ctx, localpg.Options{})
		check(err)
		url = server.URL()
	}
	config, err := pgxpool.ParseConfig(url)
	check(err)
	schema = "example_" + strings.ToLower(rand.Text())
	config.ConnConfig.RuntimeParams["search_path"] = schema
	pool, err = pgxpool.NewWithConfig(ctx, config)
	check(err)
	up, _, err := inbox.DDL(schema)
	check(err)
	_, err = pool.Exec(ctx, "CREATE SCHEMA "+schema+";"+up+"; CREATE TABLE bills (what text)")
	check(err)
	return pool, schema, func() {
		_, err := pool.Exec(ctx, "SET client_min_messages = warning; DROP SCHEMA "+schema+" CASCADE")
		check(err)
		pool.Close()
		http.DefaultClient.CloseIdleConnections()
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
