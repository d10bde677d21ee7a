package join

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
)

// A Starter is the SQL function <table>_<Name> in a domain's words. It writes the rows of a join, as
// <table>_enqueue_many would, and starts the join. A table whose rows are always unique, or that has no
// [workqueue.Writer], has no such function.
type Starter struct {
	Name        string // the end of the function's name
	Steps, Step string // the parameter with the steps, and the beginning of the result <Step>_ids

	// Headers is an expression for the headers that the rows have in addition, as jsonb. It may name the join's id as
	// $7, the number of steps as n, and the row's place as s.ord, which is greater than n for continuations. Optional.
	Headers string
}

// inlined is what the function for many rows does, see [workqueue.Spec.InlineMany].
type inlined struct{ Declare, Check, Write, IDs string }

func (v *view) startedBy(s Starter) {
	v.Starter = s
	// of an element in a place: the parameters of continuations have one element
	named := func(format string) string {
		return fmt.Sprintf("CASE WHEN %%[1]s <= n THEN '%s'%s WHEN %%[1]s = n + 1 AND $2 IS NOT NULL THEN 'on_complete' "+
			"ELSE 'on_fail' END", s.Steps, format)
	}
	columns := map[string]string{Column.Name: "nullif(s.ord <= n, false)", "waiting": "s.ord > n"}
	if s.Headers != "" {
		columns["headers"] = "coalesce(%s, '{}') || " + s.Headers
	}
	r := &v.Rows
	r.Declare, r.Check, r.Write, r.IDs = v.spec.InlineMany(workqueue.Many{
		Rows:      "messages",
		Parameter: named(""),
		Element:   named(" || ' has a wrong element ' || %[1]s"),
		Columns:   columns,
	})
}

// StartFunction is the function's name, quoted.
func (v view) StartFunction() string { return v.qualified("_" + v.Starter.Name) }

// NewID is the id of a join that is given none.
func (view) NewID() string { return sqltext.NewID }

// InsertJoin and InsertMembers are the statements of [Joins.Start].
func (v view) InsertJoin() string {
	record := fmt.Sprintf("jsonb_build_array(jsonb_strip_nulls(jsonb_build_object('id', $7, 'policy', "+
		"array_position(%s, $4) - 1,\n        'expected', n, 'on_complete', on_complete_id, 'on_fail', on_fail_id,\n"+
		"        'deadline', $5, 'label', nullif($6, ''), 'retention', '%s')))", v.policies(), interval(cmp.Or(v.spec.Retention, workqueue.DefaultRetention)))
	return sqltext.Indented(sqltext.Inline(statementTemplates, "insert", v, record), 4)
}

func (v view) InsertMembers() string {
	return sqltext.Indented(sqltext.Inline(statementTemplates, "insert_members", v, v.Starter.Step+"_ids",
		"array_fill($7, ARRAY[n])"), 8)
}

// policies are the names of the policies, in the order of their values.
func (view) policies() string { return "ARRAY['" + strings.Join(policyNames[:], "', '") + "']" }

// RefuseArray, RefuseLength, RefuseContinuation, RefusePolicy, RefuseDeadline and RefuseLabel check the arguments as
// [Join.Validate] does.
func (v view) RefuseArray() string {
	return sqltext.RefuseUnless("jsonb_typeof($1) = 'array'", v.Starter.Steps, "must be an array of objects",
		"Give a JSON array with an object for each row; an empty one is a join without steps.")
}

func (v view) RefuseLength() string {
	return sqltext.RefuseUnless(fmt.Sprintf("jsonb_array_length($1) <= %d", workqueue.MaxBatch), v.Starter.Steps,
		fmt.Sprintf("must have at most %d elements", workqueue.MaxBatch), "Make several joins, and a join of these.")
}

func (view) RefuseContinuation(param, name string) string {
	return sqltext.RefuseUnless(fmt.Sprintf("%[1]s IS NULL OR jsonb_typeof(%[1]s) IN ('object', 'null')", param), name,
		"must be an object", "Give the fields of one row, or NULL for none.")
}

func (v view) RefusePolicy() string {
	names := slices.Clone(policyNames[:])
	last := len(names) - 1
	return sqltext.RefuseUnless("$4 = ANY ("+v.policies()+")", "policy",
		"must be "+strings.Join(names[:last], ", ")+" or "+names[last], "Leave it out for "+names[0]+".")
}

func (view) RefuseDeadline() string {
	return sqltext.RefuseUnless(fmt.Sprintf("$5 IS NULL OR $5 BETWEEN '%s' AND '%s'", minDeadline.Format(time.RFC3339),
		maxDeadline.Format(time.RFC3339)), "deadline", fmt.Sprintf("must be between %s and %s",
		minDeadline.Format(time.DateOnly), maxDeadline.Format(time.DateOnly)), "NULL is no deadline.")
}

func (view) RefuseLabel() string {
	return sqltext.RefuseUnless(fmt.Sprintf("$6 IS NULL OR octet_length($6) <= %d", MaxLabel), "label",
		fmt.Sprintf("must have at most %d bytes", MaxLabel), "Shorten it.")
}
