package txworktest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/txwork/txwork/internal/header"
)

// A Matcher selects rows. A row has to match all matchers of a call; without matchers every row matches.
type Matcher struct {
	text  string
	match func(Row) bool
}

// String describes what the matcher looks for.
func (m Matcher) String() string { return m.text }

// Where matches rows for which the function returns true. The text is for the message of a failed assertion.
func Where(text string, match func(Row) bool) Matcher { return Matcher{text, match} }

// Column matches rows by the value of a domain's column. The value has one of the types of [Row].Values. A Go int
// matches every type of integer, nil matches NULL.
func Column(name string, value any) Matcher {
	want := normal(value)
	return Matcher{fmt.Sprintf("%s is %s", name, show(want)), func(r Row) bool {
		return same(normal(r.Values[name]), want)
	}}
}

// Topic matches messages and timers by their topic.
func Topic(topic string) Matcher { return Column("topic", topic) }

// Key matches messages and timers by their key.
func Key(key string) Matcher { return Column("key", key) }

// Kind matches jobs by their kind.
func Kind(kind string) Matcher { return Column("kind", kind) }

// Queue matches jobs by their queue.
func Queue(queue string) Matcher { return Column("queue", queue) }

// Header matches rows that have the header with this value. The name's case does not matter.
func Header(name, value string) Matcher {
	return Matcher{fmt.Sprintf("header %s is %q", name, value), func(r Row) bool {
		got, ok := header.Get(r.Headers, name)
		return ok && got == value
	}}
}

// Bytes matches rows whose payload is exactly this.
func Bytes(payload []byte) Matcher {
	return Matcher{"payload is " + show(payload), func(r Row) bool { return bytes.Equal(r.Payload(), payload) }}
}

// JSON matches rows whose payload is JSON that contains the subset: objects may have more members, arrays have the same
// number of elements, each of which contains the element of the subset, and other values are equal. The subset may be
// any value that encoding/json encodes, such as a map, a struct, or JSON itself as a [json.RawMessage].
func JSON(subset any) Matcher {
	encoded, err := json.Marshal(subset)
	want, parseErr := parseAny(encoded)
	if err != nil || parseErr != nil {
		return Matcher{fmt.Sprintf("payload has %v, which is no JSON: %v", subset,
			err), func(Row) bool { return false }}
	}
	return Matcher{"payload has " + string(encoded), func(r Row) bool {
		got, err := parseAny(r.Payload())
		return err == nil && contains(got, want)
	}}
}

// Payload matches rows whose payload decodes as JSON into a T for which the function returns true.
func Payload[T any](text string, match func(T) bool) Matcher {
	return Matcher{"payload " + text, func(r Row) bool {
		var v T
		return r.JSON(&v) == nil && match(v)
	}}
}

// Own matches rows that were written by the same transaction that reads them. It tells them from those of other tests
// that share the tables. It compares created_at with the beginning of the transaction.
func Own() Matcher { return Matcher{"written in this transaction", func(r Row) bool { return r.own }} }

// parseAny parses JSON and keeps numbers in their written form.
func parseAny(data []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

func contains(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		return containsMembers(got, want)
	case []any:
		return containsElements(got, want)
	case json.Number:
		n, ok := got.(json.Number)
		return ok && sameNumber(n, want)
	}
	return got == want
}

func containsMembers(got any, want map[string]any) bool {
	object, ok := got.(map[string]any)
	for name, v := range want {
		has, there := object[name]
		ok = ok && there && contains(has, v)
	}
	return ok
}

func containsElements(got any, want []any) bool {
	array, ok := got.([]any)
	if !ok || len(array) != len(want) {
		return false
	}
	for i := range want {
		if !contains(array[i], want[i]) {
			return false
		}
	}
	return true
}

// sameNumber treats 1, 1.0 and 1e0 as equal.
func sameNumber(a, b json.Number) bool {
	x, errX := strconv.ParseFloat(a.String(), 64)
	y, errY := strconv.ParseFloat(b.String(), 64)
	return a == b || errX == nil && errY == nil && x == y
}

// normal converts every integer to int64, and values of named string types to string, so that they can be compared.
func normal(v any) any {
	switch r := reflect.ValueOf(v); {
	case v == nil:
		return nil
	case r.CanInt():
		return r.Int()
	case r.Kind() == reflect.String:
		return r.String()
	}
	return v
}

func same(a, b any) bool {
	if x, ok := a.(time.Time); ok {
		y, ok := b.(time.Time)
		return ok && x.Equal(y)
	}
	return reflect.DeepEqual(a, b)
}
