package workqueue

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/postgres"
)

// columnValue brings a domain value into the one form that its column's type is sent in: string, []byte,
// int64, float64, bool, time.Time, uuid.UUID, or nil for NULL. Whatever the driver and the protocol, the
// row then holds the same, and what cannot be stored is refused before anything is sent.
func columnValue(c Column, value any) (any, error) {
	return (&converter{c, conversions[c.Type]}).convert(value)
}

// A converter is columnValue for one column, with the conversion looked up.
type converter struct {
	Column
	conversion func(any) (any, bool) // nil for jsonb
}

func convertersOf(columns []Column) []converter {
	list := make([]converter, len(columns))
	for i, c := range columns {
		list[i] = converter{c, conversions[c.Type]}
	}
	return list
}

func (c *converter) convert(value any) (v any, err error) {
	if value == nil && !c.NotNull {
		return nil, nil
	}
	converted := false
	if c.conversion != nil {
		v, converted = c.conversion(value)
	}
	if !converted {
		if v, err = c.convertPlain(value); v == nil || err != nil {
			return nil, err
		}
	}
	if s, isText := v.(string); isText {
		if err := checkText(c.Name, s); err != nil {
			return nil, err
		}
	}
	return v, c.check(v)
}

// convertPlain converts what no conversion takes as it is.
func (c *converter) convertPlain(value any) (any, error) {
	v, err := plain(c.Column, value)
	switch {
	case err != nil:
		return nil, err
	case v == nil && c.NotNull:
		return nil, invalid(c.Name, "is missing")
	case v == nil:
		return nil, nil
	case c.Type == "jsonb":
		return jsonValue(c.Column, value, v)
	}
	v, ok := c.conversion(v)
	if !ok {
		return nil, invalid(c.Name, "is %sa %T, which is no %s", showable(v), value, c.Type)
	}
	return v, nil
}

// showable is a value as an error may show it: only numbers, booleans and times. Texts, bytes and what is composed of
// them may be payloads and keys, which must not get into a log.
func showable(v any) string {
	switch v.(type) {
	case int64, float64, bool, time.Time:
		return fmt.Sprintf("%v, ", v)
	}
	return ""
}

// plain reduces a value to a basic type: it looks through pointers, asks a driver.Valuer for its value,
// and forgets the names of named types. A nil pointer or slice is nil.
func plain(c Column, value any) (any, error) {
	switch v := value.(type) {
	case nil, string, int64, float64, bool, time.Time, uuid.UUID:
		return v, nil
	}
	if b, ok := value.([]byte); ok && b != nil {
		return value, nil
	}
	rv := reflect.ValueOf(value)
	if nillable(rv.Kind()) && rv.IsNil() {
		return nil, nil
	}
	if valuer, ok := value.(driver.Valuer); ok {
		v, err := valuer.Value()
		if err != nil {
			return nil, invalid(c.Name, "gives no value: %v", err)
		}
		return v, nil
	}
	switch rv.Kind() {
	case reflect.Pointer:
		return plain(c, rv.Elem().Interface())
	case reflect.String:
		return rv.String(), nil
	case reflect.Bool:
		return rv.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return rv.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if n := rv.Uint(); n <= math.MaxInt64 {
			return int64(n), nil
		}
	case reflect.Float32, reflect.Float64:
		return rv.Float(), nil
	case reflect.Slice:
		if rv.Type().Elem().Kind() == reflect.Uint8 {
			return rv.Bytes(), nil
		}
	case reflect.Array:
		if id := reflect.TypeFor[uuid.UUID](); rv.Type().ConvertibleTo(id) {
			return rv.Convert(id).Interface(), nil
		}
	}
	return value, nil // no conversion takes it
}

func nillable(k reflect.Kind) bool {
	return k == reflect.Pointer || k == reflect.Slice || k == reflect.Map
}

// conversions take a basic value to the form of a column's type, or refuse it. A value that has the form already is
// returned as it came: to make an any of it once more would allocate.
var conversions = map[string]func(any) (any, bool){
	"bigint":           integerValue(64),
	"boolean":          boolValue,
	"bytea":            bytesValue,
	"date":             dateValue,
	"double precision": floatValue,
	"integer":          integerValue(32),
	"numeric":          numericValue,
	"smallint":         integerValue(16),
	"text":             textValue,
	"timestamptz":      timeValue,
	"uuid":             uuidValue,
}

func integerValue(bits int) func(any) (any, bool) {
	fits := func(n int64) bool { return n == n<<(64-bits)>>(64-bits) }
	return func(v any) (any, bool) {
		if s, isText := v.(string); isText {
			n, err := strconv.ParseInt(s, 10, 64)
			return n, err == nil && fits(n)
		}
		n, ok := v.(int64)
		return v, ok && fits(n)
	}
}

func boolValue(v any) (any, bool) { _, ok := v.(bool); return v, ok }

func bytesValue(v any) (any, bool) { b, ok := v.([]byte); return v, ok && b != nil }

// dateValue converts a time to its day in its own time zone.
func dateValue(v any) (any, bool) {
	switch v := v.(type) {
	case time.Time:
		return v.Format(time.DateOnly), inCalendar(v)
	case string:
		_, err := time.Parse(time.DateOnly, v)
		return v, err == nil
	}
	return v, false
}

func floatValue(v any) (any, bool) {
	switch value := v.(type) {
	case float64:
		return v, true
	case int64:
		return float64(value), true
	case string:
		f, err := strconv.ParseFloat(value, 64)
		return f, err == nil
	}
	return v, false
}

var numericPattern = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$|^NaN$`)

func numericValue(v any) (any, bool) {
	switch v := v.(type) {
	case string:
		return v, numericPattern.MatchString(v)
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), !math.IsInf(v, 0)
	}
	return v, false
}

func textValue(v any) (any, bool) {
	if id, ok := v.(uuid.UUID); ok {
		return id.String(), true
	}
	_, ok := v.(string)
	return v, ok
}

func timeValue(v any) (any, bool) {
	if s, ok := v.(string); ok {
		t, err := time.Parse(time.RFC3339Nano, s)
		return storedTime(t), err == nil && inCalendar(t)
	}
	t, ok := v.(time.Time)
	return storedTime(t), ok && inCalendar(t)
}

// storedTime is a time as PostgreSQL stores it. It is truncated here, because some drivers would round and others
// truncate.
func storedTime(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// inCalendar reports whether a time can be written with four digits for the year.
func inCalendar(t time.Time) bool {
	year := t.UTC().Year()
	return year >= 1 && year <= 9999
}

func uuidValue(v any) (any, bool) {
	switch value := v.(type) {
	case uuid.UUID:
		return v, true
	case string:
		id, err := uuid.Parse(value)
		return id, err == nil
	case []byte:
		id, err := uuid.FromBytes(value)
		return id, err == nil
	}
	return v, false
}

// jsonValue takes a string or bytes as JSON text, and encodes everything else. The value is given as it came, and
// plain.
func jsonValue(c Column, value, v any) (_ any, err error) {
	var encoded []byte
	switch v := v.(type) {
	case string:
		encoded = []byte(v)
	case []byte:
		encoded = v
	default:
		if _, ok := value.(driver.Valuer); !ok {
			v = value // with its pointer, on which MarshalJSON may be declared
		}
		if encoded, err = json.Marshal(v); err != nil {
			return nil, invalid(c.Name, "cannot be encoded as JSON: %v", err)
		}
	}
	return string(encoded), refuse(c.Name, postgres.JSON(encoded))
}
