// Package txworktest tests applications that use txwork, on a real PostgreSQL.
//
// # A test
//
// [Schema] gives a test a schema of its own with txwork's tables. [Server] starts a PostgreSQL for it; you can also
// pass the URL of a server that you have. The test calls the application, and then checks what it enqueued:
//
//	func TestPlacingAnOrder(t *testing.T) {
//		t.Parallel()
//		db := txworktest.Schema(t, txworktest.Server(t))
//		db.Exec(t, "CREATE TABLE orders (id int PRIMARY KEY, shipped bool NOT NULL DEFAULT false)")
//		shop := newShop(db.Pool, db.Schema)
//		tx := db.Begin(t) // rolled back when the test ends
//
//		if err := shop.Place(t.Context(), tx, 7); err != nil {
//			t.Fatal(err)
//		}
//		txworktest.RequireEnqueued(t, tx, shop.box,
//			txworktest.Topic("order.placed"), txworktest.JSON(map[string]any{"order": 7}))
//
//		if h := txworktest.RunOne(t, tx, shop.relay()); h.Outcome != txworktest.Done {
//			t.Error(h)
//		}
//	}
//
// The file example_test.go of this package has the whole test and the shop.
//
// # In a transaction or on a pool
//
// Assertions and runs take a [Querier], which is the place where they look.
//
// In a transaction, nothing commits. This is the fastest, and tests can share tables; [Own] selects a test's own rows.
// Time stands still in a transaction, so a row that a handler puts back is not due again until you call [Advance].
//
// On a pool, everything happens as in production. The test then needs the schema for itself.
//
// # Running handlers
//
// [RunOne], [Drain] and [DrainAll] run the application's own workers, one row after the other. They return what became
// of each row: done, retried with its error, a dead letter, and so on. A handler that puts its row back again and again
// fails the test.
//
// # Time
//
// No test has to sleep. [Advance] moves the due times of rows back, so that a test need not wait for them, and the
// clock of schedules. DrainAll advances by itself until all retries are used up, but does not move schedules.
//
// # Faults
//
// A handler may run twice for a row: its process dies, its lease is lost, or the connection breaks before the result is
// stored. [Faults] make that happen at the call or statement that you name, so that a test can check that the effect
// happened once:
//
//	faults := txworktest.NewFaults(t)
//	faults.After(1, txworktest.LoseLease(db.Pool, box))
//	relay.Wrap(func(h outbox.Handler) outbox.Handler { return txworktest.Inject(faults, h) })
//	txworktest.DrainAll(t, db.Pool, relay) // lease lost, done
//
// Wrap also reaches the handlers that an application has registered. Relays, inbox, timers and jobs workers have it.
//
// # Concurrency
//
// Tests that each have a schema can run in parallel. Within one schema, run handlers from one goroutine at a time, and
// let no other worker use the tables meanwhile.
package txworktest
