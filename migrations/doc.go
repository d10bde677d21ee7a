// Package migrations makes and changes the tables of txwork.
//
// # An application's start
//
// A [Migrator] brings a schema to the version of the library ([Migrator.Up]) or says what keeps the two
// apart ([Migrator.Validate]), with the DDL that mends it ([Migrator.Differences]). Nothing in txwork migrates by itself: workers check their table's version
// when they start, and refuse a wrong one.
//
// Any number of processes may call Up at once. An advisory lock for each schema lets one work while the
// others wait. Each migration is a transaction of its own, together with its entry in the table
// schema_version, so an interrupted Up is continued by the next one. Up, Down and [Migrator.DownTo] need
// a session of PostgreSQL's own; a pooler such as PgBouncer has to be in session mode, or bypassed.
//
// A migration that needs the lock of a table in use gives up after [Options].LockTimeout, whole, and says who
// uses it: the statements of everybody else would wait behind it.
//
// # Schemas
//
// Everything lives in the schema txwork, or in another one by [Options]. Up makes it where it is missing,
// for which the role needs CREATE on the database; where the schema exists, CREATE on the schema is
// enough. Down leaves the schema, and at version 0 nothing in it: `DROP SCHEMA txwork` then succeeds
// without CASCADE, unless you have put something there yourself.
//
// # Domains
//
// Each [Domain] has migrations and a version of its own. A new schema gets all domains, or those that
// [Options].Domains names, and records them in schema_domain: later runs of Up, Validate and Status are about the
// domains that it has. To add one, name it once. With the jobs alone, for example, a schema has the tables of jobs and
// of the reaper, and none of the outbox, the inbox and the timers.
//
// # Other tools
//
// [SQL] is plain text for psql and Atlas. [FS] and [Export] are files for golang-migrate and for a goose of your own
// application, numbered as you like. [Migrator] runs the same statements through goose. All of them record what they
// did in schema_version, so Validate, and `txwork migrate status`, hold whatever tool you use.
//
// # Tables of your own
//
// [DDL] prints a goose migration for any [workqueue.Spec]. It belongs among your application's migrations.
package migrations
