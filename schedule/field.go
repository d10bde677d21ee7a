package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A field describes one of the five fields of an expression.
type field struct {
	name      string
	low, high int      // what * means
	most      int      // the highest number that may be written, and the end of a value with a step
	names     []string // names of the values, from low on
}

const fieldNames = "minute hour day-of-month month day-of-week"

var fields = [5]field{
	{name: "minute", low: 0, high: 59, most: 59},
	{name: "hour", low: 0, high: 23, most: 23},
	{name: "day-of-month", low: 1, high: 31, most: 31},
	{name: "month", low: 1, high: 12, most: 12,
		names: []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}},
	{name: "day-of-week", low: 0, high: 6, most: 7,
		names: []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}},
}

// parse returns the set of values in a list, or the reason why it is refused.
func (f *field) parse(list string) (set uint64, reason string) {
	for item := range strings.SplitSeq(list, ",") {
		values, reason := f.parseItem(item)
		if reason != "" {
			return 0, reason
		}
		set |= values
	}
	return set, ""
}

func (f *field) parseItem(item string) (uint64, string) {
	span, by, stepped := strings.Cut(item, "/")
	low, high, reason := f.parseSpan(span, stepped)
	if reason != "" {
		return 0, reason
	}
	step := 1
	if stepped {
		if step, reason = f.parseStep(by); reason != "" {
			return 0, reason
		}
	}
	var set uint64
	for value := low; value <= high; value += step {
		set |= 1 << value
	}
	return set, ""
}

// parseSpan reads the part before a step: *, a value or a range. A value with a step extends to the field's end.
func (f *field) parseSpan(span string, stepped bool) (low, high int, reason string) {
	if span == "*" {
		return f.low, f.high, ""
	}
	first, last, isRange := strings.Cut(span, "-")
	if low, reason = f.parseValue(first); reason != "" {
		return 0, 0, reason
	}
	switch {
	case isRange:
		high, reason = f.parseValue(last)
	case stepped:
		high = f.most
	default:
		high = low
	}
	if reason == "" && high < low {
		reason = fmt.Sprintf("has the range %q, which ends before it begins%s", clip(span), f.rangeHint())
	}
	return low, high, reason
}

func (f *field) rangeHint() string {
	if f.name == "day-of-week" {
		return " (SUN is 0; at the end of a range write 7)"
	}
	return ""
}

func (f *field) parseStep(by string) (int, string) {
	step, ok := parseNumber(by)
	values := f.high - f.low + 1
	switch {
	case !ok:
		return 0, fmt.Sprintf("has the step %q, which is not a number", clip(by))
	case step == 0:
		return 0, "has the step 0"
	case step > values:
		return 0, fmt.Sprintf("has the step %s, but there are only %d values; for longer intervals use @every",
			clip(by), values)
	}
	return step, ""
}

func (f *field) parseValue(text string) (int, string) {
	if i := slices.Index(f.names, strings.ToUpper(text)); i >= 0 {
		return f.low + i, ""
	}
	value, ok := parseNumber(text)
	switch {
	case text == "":
		return 0, "has an empty place: a value is missing"
	case strings.ContainsAny(text, "?LW#~") && !ok:
		return 0, fmt.Sprintf("has %q: of the signs only * , - and / are known", clip(text))
	case !ok:
		return 0, fmt.Sprintf("has %q, which is not a value", clip(text))
	case value < f.low || value > f.most:
		return 0, fmt.Sprintf("has %s, which is not between %d and %d", clip(text), f.low, f.most)
	}
	return value, ""
}

// parseNumber accepts digits only. If a number is too large for every field, its exact value does not matter.
func parseNumber(text string) (int, bool) {
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil && len(text) > 4 && strings.Trim(text, "0123456789") == "" {
		return 1 << 16, true
	}
	return int(number), err == nil
}
