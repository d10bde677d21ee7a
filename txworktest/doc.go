// Package txworktest tests applications that use txwork, on a real PostgreSQL.
//
// # A test
//
// [Schema] gives a test a schema of its own, with txwork's tables; [Server] a PostgreSQL to have it on, or take the URL of one
// that you have. The test then calls the application, and asks what it enqueued:
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
// The file example_test.go of this package has it in full, with the shop.
//
// # Where a test works
//
// Everything takes the place where it looks, a [Querier]. With a transaction nothing ever commits: it is the
// quickest, tests may share tables ([Own] tells their rows apart), and time stands still, so that what a handler puts back does not
// come again before [Advance]. With a pool all is as in production, and it needs the schema for itself.
//
// # Running handlers
//
// [RunOne], [Drain] and [DrainAll] run an application's own workers, one row after the other, and return what became of
// each: done, retried with which error, a dead letter. A handler that puts its row back for ever fails the test.
//
// # Time
//
// Nothing sleeps. [Advance] moves the rows back instead of the clock forward, and DrainAll does it by itself until
// all retries are used up.
//
// # Faults
//
// A handler may run twice for a row: its process dies, its lease is lost, or the connection goes away before its result is stored.
// [Faults] make that happen, at the call or the statement that is named, so that a test can look whether the effect is there once:
//
//	faults := txworktest.NewFaults(t)
//	faults.After(1, txworktest.LoseLease(db.Pool, box))
//	relay.Handle("order.placed", txworktest.Inject(faults, ship))
//	txworktest.DrainAll(t, db.Pool, relay) // lease lost, done
//
// # Concurrency
//
// Tests with a schema each may be parallel. Within one, the kit's runs of handlers need the table for themselves.
package txworktest
