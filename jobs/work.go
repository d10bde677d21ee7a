package jobs

import (
	"fmt"

	"github.com/txwork/txwork/internal/sqltext"
)

// A workFunction is a function of work.sql, or its overload for a value that is not bytea.
type workFunction struct{ Name, Types, Parameters, Returns, Call string }

// WorkFunctions are the functions of work.sql and their overloads.
func (v view) WorkFunctions() []workFunction {
	return append([]workFunction{
		{Name: "steps", Types: "uuid, uuid"},
		{Name: "progress", Types: "uuid, uuid, integer, text"},
		{Name: "put_step", Types: "uuid, uuid, text, bytea"},
		{Name: "output", Types: "uuid, uuid, bytea"},
		{Name: "complete", Types: "uuid, uuid, bytea"},
	}, v.Overloads()...)
}

// Overloads are the functions for values of other types.
func (v view) Overloads() (list []workFunction) {
	for _, typ := range []string{"text", "json", "jsonb"} {
		call := func(name, args string, value int) string {
			return fmt.Sprintf("%s(%s, convert_to($%d::text, 'UTF8'))", v.Function(name), args, value)
		}
		list = append(list,
			workFunction{"put_step", "uuid, uuid, text, " + typ, "owner_token uuid, id uuid, name text, value " + typ,
				"TABLE (result text, recorded bytea)",
				"RETURN QUERY SELECT p.result, p.recorded FROM " + call("put_step", "$1, $2, $3", 4) + " AS p;"},
			workFunction{"output", "uuid, uuid, " + typ, "owner_token uuid, id uuid, output " + typ, "void",
				"PERFORM " + call("output", "$1, $2", 3) + ";"},
			workFunction{"complete", "uuid, uuid, " + typ, "owner_token uuid, id uuid, output " + typ, "void",
				"PERFORM " + call("complete", "$1, $2", 3) + ";"})
	}
	return list
}

// Inline is a statement that Go sends, with an expression in the place of each parameter.
func (v view) Inline(file string, args ...string) string {
	return sqltext.Indented(sqltext.Inline(statementTemplates, file, v, args...), 4)
}

// Ack is the core's ack.
func (v view) Ack(token, ids string) string {
	return sqltext.Indented(v.spec.Inline("ack", map[string]string{"owner_token": token, "ids": ids}), 4)
}

// Held is the condition that the job $2 is held by the owner $1, after a SELECT.
func (v view) Held() string {
	return "FROM " + v.Table() + " AS t WHERE t.id = $2 AND t.owner_token = $1 AND t.status = 1"
}

// Lost is the error for a job that is not.
func (v view) Lost() string {
	return fmt.Sprintf(`RAISE EXCEPTION USING ERRCODE = 'TXL01', COLUMN = 'id',
            MESSAGE = format('id is of a job of %s that the claim does not hold: %%s', $2),
            HINT = 'Roll back: another worker has the job, or it has ended. Do no more for it.';`, v.Name())
}

// Refuse checks an argument, Holder the first two, and Value one that is stored.
func (view) Refuse(condition, parameter, message, hint string) string {
	return sqltext.RefuseUnless(condition, parameter, message, hint)
}

func (v view) Holder() string {
	return sqltext.Given("$1", "owner_token", "Give the token of the claim.") + "\n    " +
		sqltext.Given("$2", "id", "Give the id of the job.")
}

func (v view) Value(param, name string) string {
	return v.Refuse(fmt.Sprintf("octet_length(%s) <= %d", param, DefaultMaxArgs), name,
		fmt.Sprintf("must not be NULL, and have at most %d bytes", DefaultMaxArgs),
		"Keep larger data elsewhere, and its address here.")
}

// QueueName checks the name of a queue.
func (view) QueueName() string {
	return sqltext.Sized("$1", "queue", MaxQueue, "Give the queue's name.")
}

// StepName checks the name of a step.
func (view) StepName() string {
	return sqltext.Sized("$3", "name", MaxStep, "Name the step, differently from the other steps of the job.")
}

// MaxNote is the constant for the template.
func (view) MaxNote() int { return MaxNote }
