// Package webui is a dashboard for the tables of a schema, as one [http.Handler] to mount in a program of yours. The
// command txwork serve is such a program.
//
//	page, err := webui.New(webui.Config{Pool: pool, Authenticate: accounts.Authenticate})
//	if err != nil {
//		return err
//	}
//	mux.Handle("/queues/", http.StripPrefix("/queues", page))
//
// All links are relative, so any path prefix works, also one that a proxy removes. The prefix ends with a slash.
//
// # What it shows
//
// An overview with the findings of the doctor and the depth of each table, the rows in each state with filters, one row
// with its payload, dead letters by cause, queues and topics, schedules, keys, joins, a log and its subscriptions,
// sources of messages, alarms, processes, and the maintenance of the tables. It finds a row by its id. Tables come from
// the catalog, those of your own too. Open pages hear by a stream of events that figures are new. Unless
// Config.Actions is set, it changes nothing: every transaction is read-only, and requests other than GET are refused.
//
// # What it costs
//
// It reads only while somebody looks. The figures of the overview are read at most every 10 seconds, once for all
// viewers, and each page says how old they are. Every other page is a few statements, each of which reads an index, a
// bounded number of rows, and has a timeout. At most four pages read at the same time. No table gets an index for it.
//
// # Who may look
//
// [New] refuses a configuration without Authenticate. [NewAccounts] has passwords and bearer tokens; a function of your
// own can take the user from a session, a certificate or a header of a proxy. Row-level security applies to the role of
// the pool, and pages say that they show a part.
package webui
