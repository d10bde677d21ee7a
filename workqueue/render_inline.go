package workqueue

// Inline is an operation of the core as a statement in a function of a domain, with an expression in the place of each
// of its parameters: "ack" has owner_token and ids, which it returns, and "cancel" has ids and reason.
func (s Spec) Inline(operation string, expressions map[string]string) string {
	v := newView(s)
	file := operation
	if operation == "ack" {
		file = v.settleFile(outcomeAck) + "_one"
	}
	return v.inline(file, expressions)
}
