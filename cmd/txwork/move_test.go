package main

import "testing"

// An outbox moves by one command, which says before what it will do, and which may be repeated.
func TestAnOutboxIsMoved(t *testing.T) {
	c := newMigratedCLI(t)
	move := []string{"outbox", "move", "log", "--subscription", "main"}
	c.run(append(move, "--dry-run")...).exits(exitFailure).says("outbox_log_parked")
	c.makeLog()
	c.run("outbox", "move", "files").exits(exitUsage).says("cannot move to \"files\"")
	c.run("outbox", "move", "rows", "--subscription", "main").exits(exitUsage).says("only then")
	c.run("outbox", "move", "log").exits(exitUsage).says("--subscription is needed")
	c.run("outbox", "move", "rows").ok().prints("0 messages of the log became rows")
	c.run(append(move, "--dry-run")...).ok().prints("cannot move: the log has messages")
	c.run(append(move, "--yes")...).exits(exitFailure).says("the log has messages")
	c.log("TRUNCATE outbox_log")

	c.answer("{}\n{}\n", "outbox", "send", "--topic", "t").ok()
	c.run(append(move, "--dry-run")...).ok().prints("would move to subscription main with 2 rows")
	c.run(move...).exits(exitUsage).says("Switch the outbox to the log for good, and move 2 rows to subscription main?")
	c.run(append(move, "--yes", "--json")...).ok().prints(`"stage":"moved"`, `"moved":2`)
	c.run(append(move, "--dry-run")...).ok().prints("has moved to subscription main: 0 rows moved")
	c.run(move...).ok().prints("0 rows moved")
	c.run("outbox", "move", "log", "--subscription", "other").exits(exitFailure).
		says("have moved to subscription main already")
	c.answer("{}\n", "outbox", "send", "--topic", "t").exits(exitFailure).says("has moved to the log")

	back := []string{"outbox", "move", "rows"}
	c.run(append(back, "--dry-run")...).ok().prints("cannot move back to rows: rows have one destination", "audit, main")
	c.run(append(back, "--yes")...).exits(exitFailure).says("remove all but one")
	c.run("subscriptions", "remove", "audit", "--parked", "--yes").ok()
	c.run(append(back, "--dry-run")...).ok().prints("would move back to rows, and subscription main be removed")
	c.run(back...).exits(exitUsage).says("Move the outbox back to rows, and remove subscription main?")
	c.run(append(back, "--yes", "--json")...).ok().prints(`"stage":"rows"`, `"moved":2`)
	c.run(append(back, "--yes")...).ok().prints("0 messages of the log became rows")
	c.answer("{}\n", "outbox", "send", "--topic", "t").ok()
}
