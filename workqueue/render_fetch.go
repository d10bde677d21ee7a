package workqueue

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue/internal/announce"
)

// The cursor of the function fetch, see sql/fetch.sql. The bounds of its parts keep it below maxCursor bytes.
const (
	cursorVersion   = "1"
	maxCursor       = 8192
	maxFetchLanes   = 64
	maxCursorTopics = 4096

	// longestWait is how long a client waits at most until it fetches again.
	longestWait = time.Minute
)

// fetchFunction describes fetch, which fetch.sql renders.
func (v view) fetchFunction() sqlFunction {
	f := sqlFunction{Name: "fetch", params: []sqlParam{
		{"owner_token", "uuid", ""}, {"lease", "interval", ""}, {"n", "integer", ""},
	}}
	for _, l := range v.FetchLanes() {
		f.params = append(f.params, sqlParam{l.Quoted, l.ArgumentType, l.Default})
	}
	f.params = append(f.params, sqlParam{"cursor", "text", "NULL"}, sqlParam{"heard", "text[]", "NULL"},
		sqlParam{"sweep", "boolean", "NULL"})
	return f
}

// FetchParameters and FetchTypes are its parameters and its signature.
func (v view) FetchParameters() string {
	return strings.ReplaceAll(v.fetchFunction().parameters(), ", ", ",\n    ")
}

func (v view) FetchTypes() string { return v.fetchFunction().Types() }

func (v view) FetchName() string { return v.spec.Name() + "_fetch" }

// FetchedColumns are the domain's columns that a fetch returns.
func (v view) FetchedColumns() []columnView {
	return slices.DeleteFunc(slices.Clone(v.Columns), func(c columnView) bool { return c.Internal })
}

// A fetchLane is a lane as a parameter of fetch.
type fetchLane struct {
	columnView
	IsArray      bool // it takes several values, since it has neither rules nor topics
	ArgumentType string
	Default      string
	Argument     string // its number, as $4
	Variable     string // the array of its values in all lanes of the fetch
	Elements     string // the alias of the argument's elements
}

func laneVariable(i int) string { return fmt.Sprintf("own.lane%d", i+1) }

// FetchLanes are all lanes.
func (v view) FetchLanes() []fetchLane {
	var lanes []fetchLane
	for i, c := range v.Lanes {
		l := fetchLane{columnView: c, ArgumentType: c.Type, Argument: fmt.Sprintf("$%d", i+4),
			IsArray:  c.Name != v.Admission && c.Name != v.spec.Topics.Lane,
			Variable: fmt.Sprintf("lane%d", i+1), Elements: fmt.Sprintf("e%d", i+1)}
		if c.Type == "smallint" {
			l.ArgumentType = "integer"
		}
		if l.Default = l.byDefault(); l.IsArray {
			l.ArgumentType += "[]"
		}
		lanes = append(lanes, l)
	}
	for i := len(lanes) - 2; i >= 0; i-- { // parameters without a default stand before those that have one
		if lanes[i+1].Default == "" {
			lanes[i].Default = ""
		}
	}
	return lanes
}

// byDefault is the value of a new row for a lane of one value, and all values that there can be for one of several.
func (l *fetchLane) byDefault() string {
	if !l.IsArray {
		for _, p := range l.written().Params {
			if p.Name == l.Name {
				return p.Default
			}
		}
		return ""
	}
	b := l.Bound
	if l.sized() || !b.Stored || b.Max == 0 || b.Max-b.Min >= maxFetchLanes {
		return ""
	}
	var values []string
	for n := b.Min; n <= b.Max; n++ {
		values = append(values, fmt.Sprint(n))
	}
	return "'{" + strings.Join(values, ",") + "}'"
}

// Element is the lane's value, in the type in which claims get it.
func (l fetchLane) Element() string {
	if l.IsArray {
		return l.Elements + ".value::" + l.Bind
	}
	return l.Argument + "::" + l.Bind
}

// Lane is the lane's value among those of the fetch, as the table has it.
func (l fetchLane) Lane() string {
	if l.Cast {
		return "l." + l.Alias + "::" + l.Type
	}
	return "l." + l.Alias
}

// FetchArrays are the lanes that take several values.
func (v view) FetchArrays() []fetchLane {
	return slices.DeleteFunc(v.FetchLanes(), func(l fetchLane) bool { return !l.IsArray })
}

// FetchArrayOrder is the order of the lanes: the first column is the most significant.
func (v view) FetchArrayOrder() string {
	var order []string
	for _, l := range v.FetchArrays() {
		order = append(order, l.Elements+".ord")
	}
	return strings.Join(order, ", ")
}

// FetchLaneCount is how many lanes a fetch reads.
func (v view) FetchLaneCount() string {
	if len(v.Lanes) == 0 {
		return "1"
	}
	return "cardinality(" + laneVariable(0) + ")"
}

// FetchMoved are the arrays with an element for each lane.
func (v view) FetchMoved() []string {
	names := []string{"place", "place_id", "reached", "reached_id"}
	for _, l := range v.FetchLanes() {
		names = append(names, l.Variable)
	}
	return names
}

// FetchTopicLane and FetchRule are the parameters of the lanes that have topics, and rules.
func (v view) FetchTopicLane() string { return v.fetchArgument(v.spec.Topics.Lane) }
func (v view) FetchRule() string      { return v.fetchArgument(v.Admission) }

func (v view) fetchArgument(lane string) string {
	return fmt.Sprintf("$%d", 4+slices.Index(v.spec.Lanes, lane))
}

// CursorArgument, HeardArgument and SweepArgument are the last parameters.
func (v view) CursorArgument() string { return fmt.Sprintf("$%d", 4+len(v.Lanes)) }
func (v view) HeardArgument() string  { return fmt.Sprintf("$%d", 5+len(v.Lanes)) }
func (v view) SweepArgument() string  { return fmt.Sprintf("$%d", 6+len(v.Lanes)) }

// FetchLabel is the lane's name in fronts, see [Table.laneLabel].
func (v view) FetchLabel() string {
	var values []string
	for _, l := range v.FetchLanes() {
		values = append(values, l.Lane())
	}
	if len(values) == 0 {
		return "'" + announce.OnlyLane + "'"
	}
	return "left(encode(sha256(convert_to(jsonb_build_array(" + strings.Join(values, ", ") +
		")::text, 'UTF8')), 'hex'), 16)"
}

// FetchNextDue asks for the first row that is due after this fetch.
func (v view) FetchNextDue() string {
	v.Now = "own.began"
	expressions := map[string]string{"since": "own.began"}
	for i, lane := range v.Lanes {
		expressions[lane.Param] = laneVariable(i)
	}
	return v.inline("next_due", expressions)
}

// FetchChecks refuse arguments and sessions.
func (v view) FetchChecks() []string {
	checks := []string{refuseForeignToken(), refuseLease("$2", "lease", "interval '%d seconds'"),
		refuseCount("$3", "n")}
	count := "1"
	for _, l := range v.FetchLanes() {
		condition, message, hint := l.Argument+" IS NOT NULL", "must not be NULL", "Name the lane to fetch from."
		if l.IsArray {
			count += " * cardinality(" + l.Argument + ")"
			condition = fmt.Sprintf("%s BETWEEN 1 AND %d AND array_position(%s, NULL) IS NULL", count, maxFetchLanes,
				l.Argument)
			message = fmt.Sprintf("must have values, none of them NULL, of at most %d lanes", maxFetchLanes)
			hint = "Pass the lanes to fetch from, the most urgent first."
			if l.Type == "smallint" {
				condition += fmt.Sprintf(" AND -32768 <= ALL (%[1]s) AND 32767 >= ALL (%[1]s)", l.Argument)
				message += " and each a smallint"
			}
		}
		checks = append(checks, sqltext.RefuseUnless(condition, l.Name, message, hint))
	}
	return append(checks,
		sqltext.RefuseUnless(fmt.Sprintf("%[1]s IS NULL OR cardinality(%[1]s) <= %[2]d\n"+
			"        AND array_position(%[1]s, NULL) IS NULL", v.HeardArgument(), MaxBatch), "heard",
			fmt.Sprintf("must be at most %d payloads, none of them NULL", MaxBatch),
			"Pass sweep => true instead of the payloads."),
		sqltext.RefuseSession("a fetch"))
}

// RefusesCursor refuses a cursor, of a fetch or of a fold, that is not of a form.
func (view) RefusesCursor(condition string) string {
	return sqltext.RefuseUnless(condition, "cursor", "is not what an earlier call has returned",
		"Pass the cursor of your last call that committed, or NULL to begin anew.")
}

const cursorPlace = `(-|-?[0-9]{1,17})/[0-9a-f]{32}`

// CursorShape is what all versions of a cursor have in common.
func (v view) CursorShape() string {
	return fmt.Sprintf("octet_length(%[1]s) <= %[2]d AND %[1]s ~ '^[0-9]{1,9} [0-9a-f]{16}( [^ ]+)*$'",
		v.CursorArgument(), maxCursor)
}

// CursorFields is the form of this version: the times, and the places of the lanes and of topics with rows aside.
func (v view) CursorFields() string {
	topics := ""
	if v.HasTopics() {
		topics = "( " + cursorPlace + "/([0-9a-f]{2})+)*"
	}
	return fmt.Sprintf("%s ~ concat('^[0-9]+ [0-9a-f]{16} [0-9]{1,17} [0-9]{1,12} [01] [0-9]{1,6}( %s){', %s, '}%s$')",
		v.CursorArgument(), cursorPlace, "cardinality(own.place)", topics)
}

// CursorPlace writes a place.
func (view) CursorPlace() string {
	return `concat(CASE WHEN u.due = '-infinity' THEN '-'
            ELSE (extract(epoch FROM u.due) * 1000000)::bigint::text END, '/', replace(u.id::text, '-', ''))`
}

// LostTogether is how many leases a row has lost together with others.
func (view) LostTogether(row string) string { return sqltext.LostLeases(row, "together") }

// ProbeWait is in how many seconds a client fetches again that waits for the probe of another.
func (view) ProbeWait() float64 { return lookForTopicsEvery.Seconds() }

// FetchIdleBound bounds how long a caller may be idle after a fetch.
func (view) FetchIdleBound() string { return sqltext.IdleBound("$2") }

// BusyPause is in how many seconds a claim asks again that got fewer permits than are free: others have locked them.
func (view) BusyPause() string { return "0.05" }

// FetchedTable, CursorVersion and so on are the constants for the template.
func (v view) FetchedTable() string { return v.spec.Name() }
func (view) CursorVersion() string  { return cursorVersion }
func (view) MaxCursorTopics() int   { return maxCursorTopics }
func (view) SweepShare() int        { return sweepShare }
func (view) FairEvery() int         { return fairEvery }
func (view) MinSweep() int64        { return minSweepInterval.Microseconds() }
func (view) MaxSweep() int64        { return maxSweepInterval.Microseconds() }
func (view) SweepPause() float64    { return sweepPause.Seconds() }
func (view) LongestWait() float64   { return longestWait.Seconds() }
