package writers

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

// What writes an existing row anew, from the values of a new one, names each column of its table: it sets it, or keeps
// it for the reason that is given here. A column that it forgot would have the value of another job, timer or schedule.
func TestWhatIsWrittenAnewIsWrittenWhole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec workqueue.Spec
		file string
		kept map[string]string
	}{
		{specs["jobs"], "../../jobs/sql/replace.sql", map[string]string{
			"kind":       "the unique key has it",
			"unique_key": "the row is found by it",
			"freed_key":  "a job that holds its key has none",
			"slot":       "a job that is ready has none",
			"joined":     "the job is the same step of a batch or workflow",
			"key_seq":    "the trigger key_move gives the place in the new key",
		}},
		{specs["timers"], "../../timers/sql/set.sql", map[string]string{
			"key":      "the row is found by it",
			"schedule": "nobody sets an occurrence: its key begins with a reserved prefix",
		}},
		{periodic.Spec("", "timers_schedule"), "../../workqueue/periodic/sql/put.sql", map[string]string{
			"name":        "the row is found by it",
			"paused":      "it stays paused until Resume",
			"last_at":     "it has fired then",
			"buffered_at": "the occurrence still waits",
			"fired":       "it counts on",
			"triggers":    "what was triggered is still to be written",
		}},
	} {
		text, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		_, list, _ := strings.Cut(string(text), "\n    SET ")
		list = regexp.MustCompile(`(?m)^    (FROM|WHERE) `).Split(list, 2)[0]
		set := map[string]bool{}
		for _, m := range regexp.MustCompile(`(?m)^\s*(\w+) = `).FindAllStringSubmatch(list, -1) {
			set[m[1]] = true
		}
		for _, column := range c.spec.Columns {
			if why, kept := c.kept[column.Name]; set[column.Name] == kept {
				t.Errorf("%s does not say what becomes of %s.%s: set it, or say here why it is kept (set %t, kept %q)",
					c.file, c.spec.Table, column.Name, set[column.Name], why)
			}
		}
	}
}
