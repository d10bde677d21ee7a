package workqueue

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// A row that a fold releases has been due for a while: it had to wait for its key. With its own due time it would often
// be behind the cursors, where claims do not see it. Due at its release it is seen, but it queues up anew: where
// workers have a backlog of a minute, each row of a key would wait that minute again. So a process that folds tells the
// fold how far its claims have come in each lane, its fronts. A row that was due before the front of its lane becomes
// due there, and one that was not keeps its due time. Cursors that have passed a front meanwhile move back to it.

// frontAge is how long a front is of use. The claims of other processes may be far beyond an old one, and would read
// again what they have claimed since.
const frontAge = 5 * time.Second

// maxFronts bounds fronts in bytes: a notification carries them, which may have 8,000.
const maxFronts = 4000

// A front is the earliest due time in a lane that its claims have not come to.
type front struct {
	due time.Time
	at  time.Time
}

// laneStart is the front of a lane that has not been claimed from: no row is due before 1970.
var laneStart = time.Unix(0, 0)

// fronts are those of a process, by the labels of the lanes.
type fronts map[string]time.Time

// moveFronts notes how far a claim came that began at some time by the database's clock. One that is full has come to
// the last of its rows and left lanes behind that one alone; of the others it has left nothing that was due.
func moveFronts(lanes []*lane, rows []claimedRow, full bool, began time.Time) {
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

// fronts are those of the table's workers.
func (t *tableWork) fronts() fronts {
	at, size := fronts{}, 0
	oldest := time.Now().Add(-frontAge)
	for _, w := range t.claiming() {
		size = w.claimer.addFronts(at, size, oldest)
	}
	return at
}

// addFronts adds those that are not too old, as far as there is room, and returns the size.
func (c *claimer) addFronts(at fronts, size int, oldest time.Time) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lanes {
		if l.label == "" || l.front.at.Before(oldest) {
			continue
		}
		due, known := at[l.label]
		if !known {
			size += len(l.label) + len(time.RFC3339Nano)
			if size > maxFronts {
				break
			}
		}
		if l.front.due.After(due) {
			at[l.label] = l.front.due.UTC()
		}
	}
	return size
}

// moveBeyond moves fronts that are not beyond those of the fold before. Rows that were put at one and the same time
// by two folds would be claimed by their ids, so that a claim may have passed some of the second's and not others.
func (at fronts) moveBeyond(before fronts) {
	for label, due := range before {
		if now, ok := at[label]; ok && !now.After(due) {
			at[label] = due.Add(time.Microsecond)
		}
	}
}

// leadBack moves the cursors of workers back to the fronts.
func (at fronts) leadBack(workers []*Worker) {
	if len(at) == 0 {
		return
	}
	for _, w := range workers {
		w.claimer.leadBack(at)
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

// json is what a fold reads.
func (at fronts) json() string {
	text, err := json.Marshal(at)
	if err != nil || at == nil { // of a year that JSON's times do not have
		return "{}"
	}
	return string(text)
}

func readFronts(text string) (at fronts, err error) {
	err = json.Unmarshal([]byte(text), &at)
	return at, err
}

// onlyLane is the label of a table without lanes.
const onlyLane = "all"

// laneLabel is a lane in fronts, as [Spec.Front] has the database compute it: a digest, since every login hears
// notifications, and the names of queues may be those of customers. It is empty where it is not known how PostgreSQL
// writes the values, which is no more than that the lane has no front.
func (t *Table) laneLabel(values []any) string {
	if len(values) == 0 {
		return onlyLane
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

// jsonText is a JSON string as PostgreSQL writes it, which leaves alone what only HTML has trouble with.
func jsonText(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}
