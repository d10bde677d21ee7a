// Package migrations creates the tables of txwork, changes them between versions, and checks that they are as this
// version of the library expects.
//
// # Migrating
//
// [Migrator.Up] brings a schema to the version of the library. Call it when your application starts, or in a release
// job. Any number of processes may call it at once: an advisory lock for each schema lets one work while the others
// wait. Nothing else in txwork migrates. Workers check the version of their table when they start, and refuse one that
// does not fit: the table says which programs it serves, and the program with which tables it works.
//
// Each migration is one transaction, together with its entry in the table schema_version; one that builds an index
// concurrently is none, and can be repeated. If Up is interrupted, the next Up continues. A migration that cannot lock
// a table in use gives up after [Options].LockTimeout. It then changes nothing, and the error says which session holds
// the lock. Without this limit, all other statements on the table would queue behind it.
//
// Up, Down and [Migrator.DownTo] need a session of their own. Put PgBouncer or another pooler in session mode, or
// connect to PostgreSQL directly.
//
// # Checking
//
// [Migrator.Validate] returns an error if the schema differs from what the migrations make. [Migrator.Differences]
// returns each difference with the DDL that repairs it.
//
// # Schemas
//
// All objects are in the schema txwork, or in the one that [Options] names. If the schema does not exist, Up creates
// it, which requires CREATE on the database. Otherwise CREATE on the schema is enough. Down to version 0 leaves an
// empty schema: `DROP SCHEMA txwork` then works without CASCADE, unless the schema contains objects of yours.
//
// # Domains
//
// Each [Domain] has its own migrations and its own version. A new schema gets the [DefaultDomains], or only those that
// [Options].Domains names. The table schema_domain records them, and later calls of Up, Validate and Status apply to
// the domains that the schema has. To add a domain, name it once. For example, a schema with only the jobs has the
// tables of jobs and of the reaper, and none of the outbox, the inbox or the timers.
//
// # Other tools
//
// [Migrator] runs the migrations through goose. You can use another tool instead:
//
//   - [SQL] returns plain text, for psql and Atlas.
//   - [FS] and [Export] provide files for golang-migrate, and for a goose of your own application, numbered as you
//     like.
//
// All of them record what they did in schema_version. Validate and `txwork migrate status` therefore work with each
// tool.
//
// # Tables of your own
//
// [DDL] returns a goose migration for any [workqueue.Spec]. Add it to the migrations of your application.
package migrations
