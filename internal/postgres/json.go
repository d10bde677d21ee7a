package postgres

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// JSON says what keeps PostgreSQL from storing text as jsonb, which cannot hold all of JSON: no NUL, no half of a
// surrogate pair, and no number beyond numeric.
func JSON(text []byte) (problem string) {
	switch {
	case !utf8.Valid(text):
		return "is not valid UTF-8"
	case !json.Valid(text):
		return "is not valid JSON"
	}
	return cmp.Or(badEscape(text), badNumber(text))
}

// badEscape says what is wrong with the \u escapes of valid JSON.
func badEscape(text []byte) string {
	high := false // the previous escape was the first half of a pair
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			if high {
				return halfPair
			}
			continue
		}
		i++
		if text[i] != 'u' {
			if high {
				return halfPair
			}
			continue
		}
		code, _ := strconv.ParseUint(string(text[i+1:i+5]), 16, 32)
		i += 4
		low := code >= 0xDC00 && code < 0xE000
		switch {
		case code == 0:
			return "has a NUL (\\u0000), which PostgreSQL's jsonb cannot hold"
		case low != high:
			return halfPair
		}
		high = code >= 0xD800 && code < 0xDC00
	}
	return ""
}

// HalfPair tells whether valid JSON escapes half of a surrogate pair. It is no character: package encoding/json decodes
// all halves alike, so two texts that differ only there would become one.
func HalfPair(text []byte) bool { return badEscape(text) == halfPair }

const halfPair = "has half of a surrogate pair, which PostgreSQL's jsonb cannot hold"

// badNumber parses the numbers only if one could be too large: a short text without an exponent cannot contain one.
func badNumber(text []byte) string {
	if len(text) <= maxFractionDigits && !bytes.ContainsAny(text, "eE") {
		return ""
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return "" // the end of valid JSON
		}
		if n, ok := token.(json.Number); ok && !numeric(n.String()) {
			return fmt.Sprintf("has a number with more digits than PostgreSQL's numeric takes: %d before the point, "+
				"%d behind it",
				maxIntegerDigits, maxFractionDigits)
		}
	}
}

// The limits of PostgreSQL's numeric, and thereby of a number in jsonb.
const (
	maxIntegerDigits  = 131072
	maxFractionDigits = 16383
)

// numeric tells whether a number, written without its exponent, has no more digits than numeric allows. Leading zeros
// count as digits.
func numeric(number string) bool {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(number, "-")), "e")
	integer, fraction, _ := strings.Cut(mantissa, ".")
	shift := 0
	if exponent != "" {
		var err error
		if shift, err = strconv.Atoi(exponent); err != nil || shift < -math.MaxInt32 || shift > math.MaxInt32 {
			return false
		}
	}
	return len(integer)+shift <= maxIntegerDigits && len(fraction)-shift <= maxFractionDigits
}
