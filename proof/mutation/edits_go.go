package mutation

import "slices"

// whole is everything that the core's own package tests.
var whole = []suite{{dir: "workqueue", skip: goldens}}

// session is what changed defaults of a session and lost conflicts show.
var session = []suite{{dir: "workqueue", run: "Conform/^session$"}, {dir: "workqueue", skip: goldens}}

// test runs one test first and the package after it.
func test(dir, run string) []suite { return []suite{{dir: dir, run: run}, {dir: dir, skip: goldens}} }

// goEdits are the fences of the Go code.
var goEdits = []edit{
	{name: "the session's isolation level", file: "workqueue/pool.go",
		old: `return "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"`, new: `return "BEGIN"`, suites: session},
	{name: "conflicts are not run again", file: "workqueue/pool.go",
		old: "err == nil || attempt > maxConflictRetries || !isConflict(err)", new: "true", suites: session},
	{name: "rows of a lost run stay", file: "workqueue/pool.go",
		old: "			if c.reset != nil {\n				c.reset()\n			}\n", new: "			_ = c\n", suites: session},
	{name: "the reply to COMMIT is ignored", file: "workqueue/pool.go",
		old: "			err = closeErr\n", new: "			_ = closeErr\n", suites: session},
	{name: "a read-only server's connection is kept", file: "workqueue/pool.go",
		old: "	if contain.Is(explain(cause), ErrReadOnly) {\n		conn.Close(ctx)", new: "	if false {\n		conn.Close(ctx)",
		suites: test("workqueue", "TestAConnectionToAReadOnlyServer")},
	{name: "a session of a pooler is given settings", file: "workqueue/kept.go",
		old: `" WHERE pg_backend_pid() = "`, new: `" WHERE 0 < "`, suites: test("workqueue", "TestSettingsOfAWorkersTransactions")},
	{name: "a session keeps another isolation level", file: "workqueue/kept.go",
		old: `{"default_transaction_isolation", "read committed"}`, new: `{"default_transaction_isolation", "serializable"}`,
		suites: test("workqueue", "TestSettingsOfAWorkersTransactions")},

	{name: "one token for every claim", file: "workqueue/cursor.go",
		old: "owner: uuid.New(),", new: "owner: [16]byte{1},", suites: test("workqueue", "TestZombie|TestStolen")},
	{name: "another's settle is taken for our own", file: "workqueue/claimref.go",
		old: "case !ours || !fine(id, at):", new: "case !ours && !fine(id, at):", suites: core("settle")},
	{name: "another outcome is taken for our own", file: "workqueue/settle.go",
		old: "		return s == Done\n", new: "		return s >= Done\n", suites: core("settle")},
	{name: "a settled row is told to be failed", file: "workqueue/settle.go",
		old: "		return s == Failed\n", new: "		return s >= Done\n", suites: core("settle")},
	{name: "batches are not sorted", file: "workqueue/settle.go",
		old:    "return cmp.Or(bytes.Compare(a.id[:], b.id[:]), bytes.Compare(a.token[:], b.token[:]))",
		new:    "return cmp.Or(0*bytes.Compare(a.id[:], b.id[:]), 0)",
		suites: core("settle")},
	{name: "two claims of a row are settled together", file: "workqueue/settle.go",
		old: "		case once[last].token != s.token:\n			again = append(again, s)\n", new: "		case once[last].token != s.token:\n			once = append(once, s)\n",
		suites: test("workqueue", "TestStaleClaimIsTold")},

	{name: "an older claim of the row stays alive", file: "workqueue/held.go",
		old: "			stale.abort(ErrLeaseLost) // we have claimed the row anew: our older claim is void\n", new: "			_ = stale\n", suites: whole},
	{name: "forgetting an old claim forgets the new one", file: "workqueue/held.go",
		old: "		if h.deliveries[d.ID] == d {\n			delete(h.deliveries, d.ID)\n		}\n", new: "		delete(h.deliveries, d.ID)\n", suites: whole},
	{name: "leases are not renewed", file: "workqueue/renew.go",
		old: "		w.renewChunk(ctx, chunk)\n", new: "		_ = chunk\n", suites: test("workqueue", "TestLeaseIsRenewed")},
	{name: "a lost lease cancels nobody", file: "workqueue/renew.go",
		old: "		byID[id].abort(ErrLeaseLost)\n		w.held.remove(byID[id])\n", new: "		w.held.remove(byID[id])\n", suites: test("workqueue", "TestStolenClaim")},
	{name: "a lapsed lease cancels nobody", file: "workqueue/renew.go",
		old: "			d.abort(ErrLeaseLost)\n		}\n	})", new: "		}\n	})", suites: test("workqueue", "TestUnreachableDatabase")},
	{name: "a cancel reaches no handler", file: "workqueue/renew.go",
		old: "		byID[id].abort(ErrRowCancelled)\n", new: "		_ = id\n", suites: test("workqueue", "TestCancelOfARunningRow")},
	{name: "a renewal of a settled row cancels its handler", file: "workqueue/renew.go",
		old: "!w.held.has(byID[id]) || byID[id].settling.Load()", new: "false", suites: whole},

	{name: "a lost settle is not repeated", file: "workqueue/settler.go",
		old: "	if !isUnsettled(err) {\n		if changed > 0 {", new: "	if true {\n		if changed > 0 {",
		suites: test("workqueue", "TestSettleIsRepeated|TestWorkerSurvives|TestSettleThatFailsOnce")},
	{name: "a refused row fails its batch", file: "workqueue/apart.go",
		old: "	case len(part) > 1:\n", new: "	case false && len(part) > 1:\n", suites: test("workqueue", "TestRefusedSettle")},
	{name: "a batch that others do not fail is never parted", file: "workqueue/apart.go",
		old: "kind == failedAway && waits < patientWaits", new: "kind == failedAway", suites: test("workqueue", "TestRefusedSettle")},
	{name: "a locked row holds its batch up", file: "workqueue/apart.go",
		old: "		if len(held) > 0 {\n", new: "		if len(held) > 0 && false {\n", suites: test("workqueue", "TestLockedRowsAreFound")},
	{name: "a row is given up while nothing can be settled", file: "workqueue/apart.go",
		old: "kind == failedRefused && (others || waits >= patientWaits)", new: "kind == failedRefused", suites: test("workqueue", "TestNothingIsGivenUp")},
	{name: "tries in vain are not slowed down", file: "workqueue/apart.go",
		old: "	if !others {\n		a.vain++\n", new: "	if false {\n		a.vain++\n", suites: test("workqueue", "TestDrainStops|TestNothingIsGivenUp")},
	{name: "a settled batch is kept until the next", file: "workqueue/worker.go",
		old: "	d.body = nil // the payload", new: "	_ = d.body // the payload", suites: test("workqueue", "TestWorkerKeepsNoPayloads")},
	{name: "an expired context ends a claim", file: "workqueue/worker.go",
		old: "w.within(context.WithoutCancel(ctx), w.options.Lease/3, func", new: "w.within(ctx, w.options.Lease/3, func", suites: test("workqueue", "TestShutdown")},
	{name: "rows that were not started are kept at shutdown", file: "workqueue/worker.go",
		old: "	w.release(w.flow.drain())\n", new: "", suites: test("workqueue", "TestShutdown")},

	{name: "a handler's writes survive a lost lease", file: "workqueue/handler.go",
		old: "	count, err := d.settleIn(ctx, tx, o)\n	if err != nil {\n		return err\n	}\n", new: "	count, _ := d.settleIn(ctx, tx, o)\n", suites: test("workqueue", "TestTx")},
	{name: "a repeated settle commits the writes twice", file: "workqueue/handler.go",
		old: "if err == nil && len(changed) == 0 {", new: "if false && len(changed) == 0 {", suites: test("workqueue", "TestTx")},
	{name: "a handler may commit without its settle", file: "workqueue/handler.go",
		old: "result := fn(handlerTx{tx})", new: "result := fn(tx)", suites: test("workqueue", "TestTx")},
	{name: "a handler's transaction has the session's isolation", file: "workqueue/handler.go",
		old: "pgx.TxOptions{BeginQuery: d.beginText()}", new: "pgx.TxOptions{BeginQuery: \"BEGIN; \" + markText(d.ID)}", suites: test("workqueue", "TestTx")},
	{name: "a handler that rolled back by text acks", file: "workqueue/begun.go",
		old: "if id != t.id.String() {", new: "if false {", suites: test("workqueue", "ByText")},
	{name: "a handler that ended its transaction acks", file: "workqueue/begun.go",
		old: "if t.tx.Conn().PgConn().TxStatus() != 'T' {", new: "if false {", suites: test("workqueue", "ByText")},
	{name: "a transaction without a commit is left open", file: "workqueue/handler.go",
		old: "	tx.Rollback(ctx) // after a commit this does nothing\n", new: "", suites: test("workqueue", "TestTx")},

	{name: "a handler that drops the error of its transaction acks", file: "workqueue/handler.go",
		old: "if err == nil && d.settled.Load() == nil {", new: "if false {", suites: test("workqueue", "TestTxAndTheHandlersResult")},
	{name: "a handler that a shutdown broke off has failed", file: "workqueue/handler.go",
		old: "	case errors.Is(cause, ErrShutdown):\n		return &Outcome{kind: outcomeRelease}\n", new: "", suites: test("workqueue", "TestShutdown")},

	{name: "a commit of which nothing is known was refused", file: "inbox/process.go",
		old: "	case refused(err):\n", new: "	case err != nil:\n", suites: beside("inbox", "TestALostCommit")},
	{name: "a commit that was refused may have been made", file: "inbox/process.go",
		old: "	case refused(err):\n", new: "	case false && refused(err):\n", suites: beside("inbox", "TestAConstraintThatRefuses")},
	{name: "a message's handler may end its transaction", file: "inbox/process.go",
		old: "fn(ctx, handlerTx{tx})", new: "fn(ctx, tx)", suites: beside("inbox", "TestTheHandlerCannotEnd")},
	{name: "a message's transaction has the session's isolation", file: "inbox/begun.go",
		old: "begin isolation level read committed read write;", new: "begin;", suites: beside("inbox", "TestProcessIsReadCommitted")},
	{name: "a message's transaction may be another than was begun", file: "inbox/begun.go",
		old: "if mark != id.String() {", new: "if false {", suites: beside("inbox", "TestProcessThatWasEndedByText")},

	{name: "the reaper works on when its term is over", file: "reaper/election.go",
		old:    "		if errors.Is(err, pgx.ErrNoRows) {\n			return ErrNotLeader\n		}\n		if err != nil {\n			return err\n		}\n		return work(ctx, tx)",
		new:    "		if err != nil && !errors.Is(err, pgx.ErrNoRows) {\n			return err\n		}\n		return work(ctx, tx)",
		suites: beside("reaper", "TestStale|TestTerm|TestOneLeads")},

	{name: "a nil transaction is taken", file: "workqueue/tx.go",
		old: "func Pgx(tx pgx.Tx) Tx {\n	if isNil(tx) {\n		tx = nil\n	}\n", new: "func Pgx(tx pgx.Tx) Tx {\n", suites: core("input")},
	{name: "the caller's settings are not given back", file: "workqueue/tx.go",
		old: "		if err := one(unpinCall(before)); err != nil {\n			return explain(err)\n		}\n", new: "		_ = before\n",
		suites: []suite{{dir: "workqueue", run: "Conform/^pgx$/transaction"}, {dir: "workqueue", skip: goldens}}},
	{name: "any name is an identifier", file: "internal/postgres/postgres.go",
		old: "case !identifierPattern.MatchString(name):", new: "case false:", suites: test("workqueue", "TestSpec")},
	{name: "a channel may be too long", file: "workqueue/spec.go",
		old: "n := len(s.channel()); n > postgres.IdentifierLimit", new: "n := len(s.channel()); n > 1000", suites: test("workqueue", "TestSpec")},
	{name: "the exponent has no bound", file: "workqueue/retry.go",
		old: `fmt.Sprintf("2::float8 ^ least(%s - 1, %d)", attempts, maxExponent)`, new: `fmt.Sprintf("2::float8 ^ (%s - 1)", attempts)`, suites: test("workqueue", "TestRetry")},
}

func allEdits() []edit { return slices.Concat(sqlEdits, goEdits, announcerEdits) }
