// Package operate is what operators do with the rows of a table, without how they are asked and told. It lists the rows
// in a state, finds those that a filter selects, shows one with what holds it back and who runs it, counts what a
// change would concern, and calls the verbs of the database (docs/sql.md). The command line, its top and package webui
// use it.
//
// It knows no domain, except that jobs have queues, and which columns of the migrations' tables fit on a line. What a
// table is like comes from the catalog, so it works with tables of an application's own. It never prints, asks or
// parses: whoever uses it passes a function that hears how far a long read has come. Lists read an index in its order,
// a bounded number of rows in a statement, each in a transaction of its own that blocks nobody. Lists of rows in
// progress read past the ready rows before them.
//
// A request that a table cannot answer is a [Refusal]. Row-level security may hide rows from the role: [DB.Hidden] says
// of which tables, and whoever uses the package says so, too.
package operate
