package webui_test

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

// workflow starts a workflow of tasks, each of which waits for those that after names.
func (s *site) workflow(name string, tasks int, after func(i int) []int) jobs.StartedWorkflow {
	s.Helper()
	c, err := jobs.Open(jobs.Options{Schema: s.db.Schema})
	must(s, err)
	w := jobs.NewWorkflow(name)
	var all []*jobs.Task
	for i := range tasks {
		var before []*jobs.Task
		for _, d := range after(i) {
			before = append(before, all[d])
		}
		all = append(all, w.Task(fmt.Sprintf("task-%03d", i), jobs.Insert{Args: greeting{}}, jobs.After(before...)))
	}
	tx, err := s.db.Pool.Begin(s.Context())
	must(s, err)
	started, err := c.StartWorkflow(s.Context(), workqueue.Pgx(tx), w)
	must(s, err)
	must(s, tx.Commit(s.Context()))
	return started
}

type greeting struct{}

func (greeting) Kind() string { return "greet" }

// A workflow is shown with its tasks, and what each waits for.
func TestAWorkflowIsAGraph(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.shows("/joins", http.StatusOK, "No join of jobs is pending.", "No join of outbox is pending.")
	w := s.workflow(evil[:30], 4, func(i int) []int { return [][]int{nil, {0}, {0}, {1, 2}}[i] })
	body := s.shows("/joins", http.StatusOK, w.ID.String(), "0 of 4", `<progress max="4" value="0"`)
	if strings.Contains(body, evil[:30]) {
		t.Error("a label runs script")
	}
	path := "/joins/jobs/" + w.ID.String()
	body = s.shows(path, http.StatusOK, ">task-003<", "t/jobs/row/"+w.Tasks["task-000"].String())
	if n := strings.Count(body, "<rect"); n != 4 {
		t.Errorf("the graph has %d boxes", n)
	}
	if n := strings.Count(body, "<path"); n != 4 {
		t.Errorf("the graph has %d lines", n)
	}
	s.shows(path+"?state=ready", http.StatusOK, ">task-000<")
	s.lacks(path+"?state=ready", "<bdi>task-003</bdi>")
	row := "/t/jobs/row/" + w.Tasks["task-003"].String()
	s.shows(row, http.StatusOK, "joins/jobs/"+w.ID.String())
}

// A graph of many tasks has few boxes: of each layer those of a state, and of a long chain those behind each other.
func TestALargeWorkflowStaysReadable(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for name, after := range map[string]func(i int) []int{
		"wide": func(i int) []int { // one, then 498, then one
			switch i {
			case 0:
				return nil
			case 499:
				all := make([]int, 498)
				for k := range all {
					all[k] = k + 1
				}
				return all
			}
			return []int{0}
		},
		"long": func(i int) []int {
			if i == 0 {
				return nil
			}
			return []int{i - 1}
		},
	} {
		w := s.workflow(name, 500, after)
		body := s.shows("/joins/jobs/"+w.ID.String(), http.StatusOK, "0 of 500", "tasks")
		if n := strings.Count(body, "<rect"); n < 2 || n > 3 {
			t.Errorf("the graph of a %s workflow has %d boxes", name, n)
		}
		if len(body) > 400<<10 {
			t.Errorf("the page of a %s workflow has %d bytes", name, len(body))
		}
	}
}

// A batch has no graph, and a join that is gone a page that says so.
func TestJoinsThatAreNoWorkflows(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := uuid.Must(uuid.NewV7()).String()
	s.exec(`INSERT INTO {schema}.jobs_join (id, expected, succeeded, failed, label, retention)
		VALUES ($1, 3, 1, 1, 'import', '1 day')`, id)
	row := s.id(`INSERT INTO {schema}.jobs (kind, queue, priority, args, status, attempts, completed_at, failed_at,
		last_error) VALUES ('k', 'q', 2, '', 3, 1, now(), now(), $1) RETURNING id`, evil)
	s.exec(`INSERT INTO {schema}.jobs_join_member (member_id, join_id, outcome)
		VALUES ($1, $2, 2), (gen_random_uuid(), $2, NULL)`, row, id)
	s.shows("/joins?label=import", http.StatusOK, id, "2 of 3", "gone")
	s.shows("/joins?label=other", http.StatusOK, "and has this label")
	s.lacks("/joins?status=completed", id)
	body := s.shows("/joins/jobs/"+id, http.StatusOK, "import", row, "gone", "&lt;script&gt;alert")
	if strings.Contains(body, "<svg") {
		t.Error("a batch has a graph")
	}
	s.shows("/t/jobs/row/"+row, http.StatusOK, "joins/jobs/"+id)
	for path, status := range map[string]int{"/joins/jobs/" + row: 404, "/joins/jobs/x": 404, "/joins/none/" + id: 404,
		"/joins/postcards/" + id: 404, "/joins?status=none": 400, "/joins?after=x": 400, "/joins?label=%00": 200,
		"/joins?table=none": 404, "/joins?after=" + id: 200} {
		s.shows(path, status)
	}
}

// Joins in other states are passed over, a bounded number on each page.
func TestASearchForJoinsIsBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.exec(`INSERT INTO {schema}.jobs_join (id, status, expected, succeeded, completed_at, retention)
		SELECT lpad(to_hex(i), 32, '0')::uuid, CASE WHEN i = 1 THEN 2 ELSE 1 END, 1, 1, now(), '1 day'
		FROM generate_series(1, 6000) AS i`)
	body := s.shows("/joins?status=failed&table=jobs", http.StatusOK, "5,000 joins were searched", "There are more.")
	next := regexp.MustCompile(`rel="next" href="\.(/[^"]*)"`).FindStringSubmatch(body)
	if next == nil {
		t.Fatal("the search does not go on")
	}
	s.shows(html.UnescapeString(next[1]), http.StatusOK, "00000000-0000-0000-0000-000000000001")
}
