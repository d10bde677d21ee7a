package conn

// A Statement is one rendered operation with its parameters in the order of $1, $2, ….
type Statement struct {
	Name   string
	Text   string
	Params []string
	// Retakes says that it takes unique values, which others may take first: then it runs again.
	Retakes bool
}

// A Call is one statement with its arguments and what to do with each of its rows.
type Call struct {
	Statement
	Args map[string]any
	Row  func(scan func(dest ...any) error) error
	// Reset forgets what Row has collected: a transaction that lost a conflict runs again.
	Reset func()
	// Unpinned leaves the planner alone: for a statement that has no plan to go wrong.
	Unpinned bool
	// Writes marks a statement that a standby refuses by itself, whatever it finds.
	Writes bool
	// Reads marks a call that changes nothing, and so may run on a standby.
	Reads bool
	// Lazy marks a change that may be lost in a crash, as a claim may: its commit does not wait for the disk.
	Lazy bool
	// Promise is the setting by which the caller promises to fold the notes of this call right after its commit; empty:
	// none.
	Promise string
}

// Arguments are the call's arguments in the order of $1, $2, …
func (c Call) Arguments() []any {
	args := make([]any, len(c.Params))
	for i, name := range c.Params {
		v, ok := c.Args[name]
		if !ok {
			panic("txwork: statement " + c.Name + " lacks argument " + name)
		}
		args[i] = v
	}
	return args
}
