package writers

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/page"
)

const sqlPage = "docs/sql.md"

func read(t *testing.T, path string) page.Page {
	t.Helper()
	text, err := os.ReadFile("../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	return page.Page{Path: path, Text: string(text)}
}

// The SQL of the pages runs as it is printed, and the domains' handlers get what it says.
func TestTheSQLOfThePagesRuns(t *testing.T) {
	f := newFixture(t)
	for path, want := range map[string]int{sqlPage: 11, "docs/worker.md": 2, "docs/coming-from-pgmq.md": 6} {
		tx, err := f.db.Pool.Begin(t.Context())
		f.ok(err)
		blocks := 0
		for _, b := range read(t, path).Blocks() {
			if b.Language != "sql" {
				continue
			}
			blocks++
			text := strings.ReplaceAll(f.in(b.Text), "public.", f.db.Schema+".")
			if _, err := tx.Exec(t.Context(), text, pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Fatalf("%s:%d: %v", path, b.Line, err)
			}
		}
		if path == sqlPage {
			f.tells(tx)
		}
		var rows int
		f.ok(tx.QueryRow(t.Context(), f.in(`SELECT (SELECT count(*) FROM txwork.outbox) + (SELECT count(*) FROM txwork.inbox)
			+ (SELECT count(*) FROM txwork.timers) + (SELECT count(*) FROM txwork.jobs)`)).Scan(&rows))
		if rows != want {
			t.Errorf("%s: %d blocks wrote %d rows, want %d", path, blocks, rows, want)
		}
		f.ok(tx.Rollback(t.Context()))
	}
}

// tells uses the page's trigger.
func (f *fixture) tells(tx pgx.Tx) {
	f.Helper()
	_, err := tx.Exec(f.Context(), f.in(`
		CREATE TABLE txwork.placed (customer text);
		CREATE TRIGGER tell AFTER INSERT ON txwork.placed FOR EACH ROW EXECUTE FUNCTION txwork.tell_of_order();
		INSERT INTO txwork.placed VALUES ('C:\new')`), pgx.QueryExecModeSimpleProtocol)
	f.ok(err)
	var payload string
	f.ok(tx.QueryRow(f.Context(), f.in("SELECT convert_from(payload, 'UTF8') FROM txwork.outbox WHERE key = 'C:\\new'")).
		Scan(&payload))
	if payload != `{"customer": "C:\\new"}` {
		f.Errorf("the trigger wrote %s", payload)
	}
}

// The page's COPY stores the payload that its digits say.
func TestTheCopyOfThePage(t *testing.T) {
	f := newFixture(t)
	blocks := slices.DeleteFunc(read(t, sqlPage).Blocks(), func(b page.Block) bool { return b.Language != "copy" })
	statement, data, _ := strings.Cut(blocks[0].Text, "\n")
	conn, err := f.db.Pool.Acquire(t.Context())
	f.ok(err)
	defer conn.Release()
	_, err = conn.Conn().PgConn().CopyFrom(t.Context(), strings.NewReader(data), f.in(statement))
	f.ok(err)
	if got := f.run("outbox"); len(got) != 1 || got[0] != `{"id": 7}` {
		t.Errorf("the handler got %q", got)
	}
}

// The page's defaults of tables are those that the database has.
func TestTheDefaultsOfThePage(t *testing.T) {
	f := newFixture(t)
	text := read(t, sqlPage).Text
	for table := range f.workers {
		attempts := ask[string](f, "SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef AS d JOIN pg_attribute AS a "+
			"ON a.attrelid = d.adrelid AND a.attnum = d.adnum WHERE a.attrelid = $1::regclass AND a.attname = 'max_attempts'",
			f.db.Schema+"."+table)
		kept := ask[string](f, "SELECT pg_get_function_arg_default(p.oid, 2) FROM pg_proc AS p "+
			"WHERE p.pronamespace = $1::regnamespace AND p.proname = $2", f.db.Schema, table+"_maintain")
		days := map[int]string{7: "7 days", 3650: "ten years ([Maintenance](#maintenance))"}[ask[int](f,
			"SELECT (extract(epoch FROM "+kept+") / 86400)::int")]
		row := fmt.Sprintf("| %s | %s | %s |", table, attempts, days)
		if days == "" || !strings.Contains(text, row) {
			t.Errorf("%s has no row %s for %s", sqlPage, row, kept)
		}
	}
}

// columns matches a row of the page's table of columns that a direct INSERT must fill.
var columns = regexp.MustCompile("(?m)^\\| `(outbox|inbox|timers|jobs)` \\| (.*) \\|$")

// values are columns of direct INSERTs that have one value only.
var values = map[string]string{"generation": "1", "priority": "2", "fire_at": "now()", "due_at": "now()",
	"payload": "convert_to('{}', 'UTF8')", "args": "convert_to('{}', 'UTF8')", "kind": "'echo'",
	"queue": "'default'", "consumer": "'c'"}

// The columns that the page names are those that an INSERT must fill: with them, a handler gets the row, and without
// one of them the row is refused or reaches no handler.
func TestTheColumnsOfADirectInsert(t *testing.T) {
	f := newFixture(t)
	_, section, _ := strings.Cut(read(t, sqlPage).Text, "## Direct INSERT and COPY")
	found := columns.FindAllStringSubmatch(section, -1)
	if len(found) != 4 {
		t.Fatalf("the page has %d tables", len(found))
	}
	for _, m := range found {
		table := m[1]
		var names []string
		for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(m[2], -1) {
			names = append(names, name[1])
		}
		insert := func(without string) error {
			columns := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == without })
			var list []string
			for _, c := range columns {
				v, ok := values[c]
				if !ok {
					v = fmt.Sprintf("'%s of %s'", c, table)
				}
				list = append(list, v)
			}
			_, err := f.db.Pool.Exec(t.Context(), f.in(fmt.Sprintf("INSERT INTO txwork.%s (%s) VALUES (%s)", table,
				strings.Join(columns, ", "), strings.Join(list, ", "))))
			return err
		}
		for _, name := range names {
			// A tombstone has neither topic nor payload; a timer without due_at fires now.
			mayLack := slices.Contains([]string{"inbox.topic", "inbox.payload", "timers.due_at"}, table+"."+name)
			if err := insert(name); err == nil && !mayLack {
				t.Errorf("%s: an INSERT without %s is accepted", table, name)
			}
			_, err := f.db.Pool.Exec(context.WithoutCancel(t.Context()), f.in("DELETE FROM txwork."+table))
			f.ok(err)
		}
		f.ok(insert(""))
		if got := f.run(table); len(got) != 1 || got[0] != "{}" {
			t.Errorf("%s: the handler got %q", table, got)
		}
	}
}

// The page's table of arguments has those of the functions.
func TestTheArgumentsOfThePage(t *testing.T) {
	f := newFixture(t)
	rows := regexp.MustCompile("(?m)^\\| `txwork\\.(\\w+)` \\| (.*) \\| (.*) \\|$").FindAllStringSubmatch(
		read(t, sqlPage).Text, -1)
	if len(rows) != len(calls) {
		t.Fatalf("the page has %d functions, want %d", len(rows), len(calls))
	}
	for _, m := range rows {
		// The functions for text, whose arguments have all defaults that there are.
		signature := ask[string](f, "SELECT pg_get_function_arguments(p.oid) FROM pg_proc AS p WHERE p.pronamespace = "+
			"$1::regnamespace AND p.proname = $2 AND pg_get_function_arguments(p.oid) ~ '(payload|args) text'",
			f.db.Schema, m[1])
		var required, optional []string
		for param := range strings.SplitSeq(signature, ", ") {
			name, rest, _ := strings.Cut(strings.TrimPrefix(param, "INOUT "), " ")
			switch {
			case name == "OUT":
			case strings.Contains(rest, "DEFAULT"):
				optional = append(optional, name)
			default:
				required = append(required, name)
			}
		}
		common := []string{"scheduled_at", "headers", "max_attempts", "id"}
		optional = slices.DeleteFunc(optional, func(n string) bool { return slices.Contains(common, n) })
		for text, want := range map[string][]string{m[2]: required, m[3]: optional} {
			var got []string
			for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(text, -1) {
				got = append(got, name[1])
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s: the page has %v, the function %v", m[1], got, want)
			}
		}
	}
}
