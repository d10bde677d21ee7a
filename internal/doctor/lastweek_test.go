package doctor_test

import (
	"strings"
	"testing"

	"github.com/txwork/txwork/internal/doctor"
)

// An hour is what the history says of an hour of a lane. Waits and runs are the numbers of buckets.
type hour struct {
	rows, dead, waits, runs int
}

// compares stores the history of the latest hour, and of the week before. So that no test fails because an hour ends,
// the next has the same.
func (w *ward) compares(table, lane string, now, then hour) {
	w.Helper()
	for weeks, h := range []hour{now, then} {
		w.exec(`INSERT INTO history (table_name, lane, step, at, done, dead, waits, runs)
			SELECT $1, $2, 3600, date_bin('1 hour', now() - interval '30 minutes', 'epoch') + n * interval '1 hour'
					- $3::int * interval '168 hours', $4::int - $5::int, $5::int, array_fill(0, ARRAY[$6::int]) || $4::int, array_fill(0, ARRAY[$7::int]) || $4::int
			FROM generate_series(0, 1) AS n`, table, lane, weeks, h.rows, h.dead, h.waits, h.runs)
	}
}

// worse are the findings about the week before.
func worse(r doctor.Report) (titles []string) {
	for _, f := range r.Findings {
		if f.Code == "slower" || f.Code == "failing-more" {
			titles = append(titles, f.Title)
		}
	}
	return titles
}

func TestSlowerThanLastWeek(t *testing.T) {
	w := newLogWard(t)
	usual := hour{rows: 300, waits: 8, runs: 15} // 11 ms and 181 ms
	slow := hour{rows: 200, waits: 8, runs: 18}  // 512 ms
	w.compares("jobs", "mail", slow, usual)
	w.compares("jobs", "", slow, usual)
	w.compares("jobs", "sms", usual, usual)
	w.compares("inbox", "billing", hour{rows: 200, waits: 28}, hour{rows: 200, waits: 25}) // 16 s and 6 s
	w.compares("outbox", "_OTHER", slow, usual)
	w.compares("outbox_log", "billing", slow, usual)
	for _, title := range []string{
		`jobs, queue "mail": handlers take more than twice as long as a week ago: half of 200 up to 512ms from `,
		`inbox, consumer "billing": rows wait more than twice as long as a week ago: half of 200 up to 16s from `,
		`outbox, those beyond the first hundred: handlers take`,
		`outbox_log, subscription "billing": handlers take`,
	} {
		w.finds("slower", []string{title})
	}
	if found := w.all("slower"); len(found) != 4 {
		t.Errorf("%d findings, want one of each table: %+v", len(found), found)
	}
	f := w.finds("slower", []string{"jobs"})
	w.exec("UPDATE history SET runs = array_fill(0, ARRAY[15]) || 300 WHERE table_name = 'jobs'")
	w.goneAfter(f, byWord, []string{"jobs"})
}

func TestMoreFailuresThanLastWeek(t *testing.T) {
	w := newWard(t)
	w.compares("jobs", "mail", hour{rows: 1000, dead: 50}, hour{rows: 1000, dead: 10})
	w.compares("jobs", "sms", hour{rows: 1000, dead: 50}, hour{rows: 1000, dead: 20})
	f := w.finds("failing-more", []string{`jobs, queue "mail": 5.0 % of the rows became dead letters`, "1.0 % a week ago"})
	if found := w.all("failing-more"); len(found) != 1 {
		t.Errorf("%+v", found)
	}
	w.exec("UPDATE history SET done = 1000, dead = 0")
	w.goneAfter(f, byWord, nil)
}

// Where history is off, short, too little or about what the role does not see, nothing is said.
func TestNothingIsSaidOfAnUnknownWeek(t *testing.T) {
	w := newWard(t)
	usual, bad := hour{rows: 1000, dead: 1, waits: 5, runs: 15}, hour{rows: 1000, dead: 500, waits: 40, runs: 40}
	if found := worse(w.examine()); len(found) > 0 {
		t.Errorf("without a history %q", found)
	}
	w.compares("jobs", "mail", bad, usual)
	if found := worse(w.examine()); len(found) != 2 {
		t.Fatalf("%q, want two findings", found)
	}
	for why, change := range map[string]string{
		"short":                  "DELETE FROM history WHERE at < now() - interval '160 hours'",
		"a gap a week ago":       "UPDATE history SET at = at - interval '3 hours' WHERE at < now() - interval '160 hours'",
		"a gap now":              "UPDATE history SET at = at - interval '3 hours' WHERE at > now() - interval '160 hours'",
		"few rows now":           "UPDATE history SET done = 100, dead = 99, waits = '{150,49}', runs = '{150,49}' WHERE at > now() - interval '9 hours'",
		"few rows a week ago":    "UPDATE history SET done = 199, dead = 0, waits = '{199}', runs = '{199}' WHERE at < now() - interval '160 hours'",
		"a table that is gone":   "UPDATE history SET table_name = 'gone'",
		"a schema without table": "DROP TABLE history",
	} {
		t.Run(strings.ReplaceAll(why, " ", "-"), func(t *testing.T) {
			w := newWard(t)
			w.compares("jobs", "mail", bad, usual)
			for _, sql := range strings.Split(change, ";") {
				w.exec(sql)
			}
			r, err := doctor.Examine(w.Context(), w.Pool, w.options())
			must(w, err)
			if found := worse(r); len(found) > 0 {
				t.Errorf("%q", found)
			}
		})
	}
	w.exec("ALTER TABLE history ENABLE ROW LEVEL SECURITY")
	w.exec("CREATE POLICY all_of_it ON history USING (true)")
	_, reader := w.as("GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")
	r, err := doctor.Examine(w.Context(), reader, w.options())
	must(w, err)
	if found := worse(r); len(found) > 0 {
		t.Errorf("of a part of the history %q", found)
	}
}
