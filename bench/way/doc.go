// Command way counts the functions that one item goes through, from its enqueueing to the end of its row: a message of
// the outbox, a job with a key's limit and one retry, and a job of River beside them.
//
//	go run ./bench/way                # the table, and what each package contributes
//	go run ./bench/way --functions    # every function, too
//	go run ./bench/way --json
//
// It runs at the root of the repository and starts a private server. It builds itself with coverage, and runs a process
// five times in which a worker is started, handles one item, and is stopped, and five times the same without the item.
// A function, a closure included, is on the way if one of its blocks was run by all processes with the item and by none
// without. So what a worker does at its start, while it has nothing to do, and at its end does not count, even if it
// does the same for the item; two runs differ by a few functions, since some depend on timing.
//
// The figure is a thermometer. It says how much a reader has to follow, and nothing about speed.
package main
