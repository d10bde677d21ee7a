package workqueue

// A Fold is a function of a domain that applies notes. Effects of a settle on other rows, such as releasing the next
// row of a key, do not happen in the transaction of the settle, where they would wait for other transactions and make
// others wait. A trigger appends a note instead, and a fold applies the notes later, in short transactions of its own.
// One session at a time folds a table.
type Fold struct {
	// Suffix names the function <schema>.<table>_<suffix>(max_notes integer, since timestamptz). It applies about
	// max_notes notes that are due, the earliest first, and returns one row:
	//
	//	folded integer          notes that it applied; NULL: another session folds, or its changes are not visible
	//	released integer        rows that became claimable
	//	again double precision  seconds until the next note is due; NULL: there is none; 0: some are due now
	//	upto timestamptz        the due time of the last note that it applied
	//
	// The function ignores notes that were due before since. A caller passes the upto of its last call, so that the
	// function does not read notes that are deleted but not yet vacuumed.
	Suffix string

	// Notes is the suffix of the table with the notes, <schema>.<table>_<notes>. Its column at is the time at which a
	// note is due. It is not before the start of the transaction that writes the note, and it has an index.
	Notes string

	// Fronts says that the function takes a third argument, fronts jsonb: how far the claims of the caller's process
	// have come in each lane, as an object of times. The function makes a row that it releases due just beyond the last
	// claim of the row's lane, unless the row's own due time is later: claims then find it in its turn. If it became
	// due now, it would queue up behind all rows that are already due. It is for package keyed: the keys of the object
	// are internal.
	Fronts bool

	// Column is a column that is not NULL in rows that write notes when they are settled.
	Column string
}
