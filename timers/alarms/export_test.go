package alarms

// CreateRequest is for the tests that compare the OpenAPI document with the Go types.
type CreateRequest = createRequest

// Routes lists what a server serves, as "METHOD path".
func Routes(s *Server) (all []string) {
	for _, r := range s.table() {
		all = append(all, r.method+" "+r.path)
	}
	return all
}

// StrandedStatement returns the statement that finds due alarms without a timer that could fire.
func StrandedStatement(a *Alarms) string { return a.statements.stranded }

// ListStatement returns the statement that reads a chunk of an owner's alarms.
func ListStatement(a *Alarms) string { return a.statements.list }
