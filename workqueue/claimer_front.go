package workqueue

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/txwork/txwork/workqueue/internal/announce"
)

// A row that a fold releases has been due for a while, because it had to wait for its key. If it kept its own due time,
// it would often lie behind the claim cursors, where claims do not see it. If it became due at its release, claims
// would see it, but it would join the end of the queue: with a backlog of a minute, each row of a key would wait that
// minute again. A process that folds therefore tells the fold how far its claims have come in each lane: these are its
// fronts. A row that was due before the front of its lane becomes due at the front; any other row keeps its due time.
// Cursors that have passed a front in the meantime move back to it.

// frontAge is how long a front is used. The claims of other processes may be far beyond an older front. Moving them
// back to it would make them read again what they have claimed since.
const frontAge = 5 * time.Second

// maxFronts bounds the fronts in bytes. They are the payload of a notification, which PostgreSQL limits to 8,000 bytes.
const maxFronts = 4000

// A front is the earliest due time in a lane that claims have not reached yet.
type front struct {
	due time.Time
	at  time.Time
}

// laneStart is the front of a lane from which nothing has been claimed yet: no row is due before 1970.
var laneStart = time.Unix(0, 0)

// fronts are the fronts of a process, by the labels of the lanes.
type fronts map[string]time.Time

// moveFronts records how far a claim came that began at the given time of the database's clock. A full claim ended at
// its last row: it may have left due rows behind that row in the same lane, and it did not reach the lanes after it.
// From all other lanes it has taken everything that was due.
func moveFronts(lanes []*lane, rows []*claimedRow, full bool, began time.Time) {
	now := time.Now()
	if full && len(rows) > 0 {
		last := rows[len(rows)-1]
		lanes[last.lane].front = front{last.DueAt.Add(time.Microsecond), now}
		lanes = lanes[:last.lane]
	}
	for _, l := range lanes {
		l.front = front{began, now}
		if !began.After(l.cursor.due) {
			l.front.due = l.cursor.due.Add(time.Microsecond)
		}
	}
}

// fit removes the latest fronts until the others fit into size bytes. A lane without a front has its rows due now,
// which makes the least difference where claims have left nothing.
func (at fronts) fit(size int) {
	byTime := func(a, b string) int { return cmp.Or(at[a].Compare(at[b]), strings.Compare(a, b)) }
	for _, label := range slices.SortedFunc(maps.Keys(at), byTime) {
		if size -= len(label) + len(time.RFC3339Nano); size < 0 {
			delete(at, label)
		}
	}
}

// addFronts adds the fronts that are not older than oldest.
func (c *claimer) addFronts(at fronts, oldest time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lanes {
		if l.label == "" || l.front.at.Before(oldest) {
			continue
		}
		if due, known := at[l.label]; !known || l.front.due.After(due) {
			at[l.label] = l.front.due.UTC()
		}
	}
}

// moveBeyond moves each front beyond the front that the previous fold used. If two folds gave their rows the same due
// time, claims would take these rows in the order of their ids, and a claim might have passed some rows of the second
// fold but not others.
func (at fronts) moveBeyond(before fronts) {
	for label, due := range before {
		if now, ok := at[label]; ok && !now.After(due) {
			at[label] = due.Add(time.Microsecond)
		}
	}
}

func (c *claimer) leadBack(at fronts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lanes {
		if due, ok := at[l.label]; ok {
			l.rewind(due)
		}
	}
}

// json encodes the fronts as the argument of a fold.
func (at fronts) json() string {
	text, err := json.Marshal(at)
	if err != nil || at == nil { // a year that JSON times cannot have
		return "{}"
	}
	return string(text)
}

func readFronts(text string) (at fronts, err error) {
	err = json.Unmarshal([]byte(text), &at)
	return at, err
}

// laneLabel identifies a lane in fronts. Front of package announce computes the same label in the database. It is a
// digest because every login can listen for notifications, and the names of queues may be names of customers. It is
// empty if Go cannot reproduce how PostgreSQL writes the values. Such a lane has no front, which does no harm.
func (t *Table) laneLabel(values []any) string {
	if len(values) == 0 {
		return announce.OnlyLane
	}
	parts := make([]string, len(values))
	for i, value := range values {
		v, err := t.laneValue(i, value)
		if err != nil {
			return ""
		}
		switch v := v.(type) {
		case string:
			parts[i] = jsonText(v)
		case int64:
			parts[i] = strconv.FormatInt(v, 10)
		case bool:
			parts[i] = strconv.FormatBool(v)
		default:
			return ""
		}
	}
	digest := sha256.Sum256([]byte("[" + strings.Join(parts, ", ") + "]"))
	return hex.EncodeToString(digest[:8])
}

// jsonText encodes a string as JSON the way PostgreSQL does: without escaping the characters that are special in HTML.
func jsonText(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}
