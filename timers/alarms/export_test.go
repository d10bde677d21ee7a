package alarms

// CreateRequest is for the tests that hold the OpenAPI document against the Go types.
type CreateRequest = createRequest

// Routes lists what a server serves, as "METHOD path".
func Routes(s *Server) (all []string) {
	for _, r := range s.table() {
		all = append(all, r.method+" "+r.path)
	}
	return all
}

// StrandedStatement is the statement that looks for alarms without a timer.
func StrandedStatement(a *Alarms) string { return a.statements.stranded }

// ListStatement reads a chunk of an owner's alarms.
func ListStatement(a *Alarms) string { return a.statements.list }
