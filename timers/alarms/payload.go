package alarms

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/txwork/txwork/workqueue"
)

// checkPayload refuses what jsonb refuses, so that a statement does not fail half-way through an application's
// transaction, and numbers that jsonb would write out as more digits than a payload may have bytes.
func checkPayload(payload json.RawMessage, limit int) error {
	const field = "payload"
	if err := workqueue.CheckSize(field, len(payload), limit); err != nil {
		return err
	}
	if !utf8.Valid(payload) {
		return workqueue.Invalid(field, "is not valid UTF-8")
	}
	if !json.Valid(payload) {
		return workqueue.Invalid(field, "is not JSON")
	}
	if reason := escapes(payload); reason != "" {
		return workqueue.Invalid(field, "%s", reason)
	}
	return checkTokens(payload, limit)
}

func checkTokens(payload []byte, limit int) error {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	depth, size := 0, len(payload)
	for {
		token, err := d.Token()
		if err != nil {
			break // the end: it is valid
		}
		switch v := token.(type) {
		case json.Delim:
			if depth += map[json.Delim]int{'[': 1, '{': 1, ']': -1, '}': -1}[v]; depth > MaxPayloadDepth {
				return workqueue.Invalid("payload", "is nested deeper than %d", MaxPayloadDepth)
			}
		case json.Number:
			if size += exponent(v.String()); size > limit {
				return workqueue.Invalid("payload", "has numbers that are written out with more than %d digits", limit)
			}
			if !numeric(v.String()) {
				return workqueue.Invalid("payload", "has a number with more digits than PostgreSQL's numeric takes: %d before the point, %d behind it",
					maxIntegerDigits, maxFractionDigits)
			}
		}
	}
	return nil
}

// maxExponent is above what any floating-point number has.
const maxExponent = 400

// exponent is how many digits a number has more when it is written without an exponent, about.
func exponent(number string) int {
	_, text, found := strings.Cut(strings.ToLower(number), "e")
	if !found {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n > maxExponent || n < -maxExponent {
		return 1 << 40
	}
	return max(n, -n)
}

// What PostgreSQL's numeric holds, and with it a number in jsonb.
const (
	maxIntegerDigits  = 131072
	maxFractionDigits = 16383
)

// numeric tells whether a number that is written out has no more digits than that. Zeros in front count as digits.
func numeric(number string) bool {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(number, "-")), "e")
	integer, fraction, _ := strings.Cut(mantissa, ".")
	shift, _ := strconv.Atoi(exponent) // within maxExponent; 0 where there is none
	return len(integer)+shift <= maxIntegerDigits && len(fraction)-shift <= maxFractionDigits
}

// escapes says what is wrong with the \u escapes of valid JSON: NUL and halves of surrogate pairs are none of
// PostgreSQL's characters.
func escapes(text []byte) string {
	high := false // the escape before was the first half of a pair
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			if high {
				return "has half of a surrogate pair"
			}
			continue
		}
		i++
		if text[i] != 'u' {
			if high {
				return "has half of a surrogate pair"
			}
			continue
		}
		code, _ := strconv.ParseUint(string(text[i+1:i+5]), 16, 32)
		i += 4
		low := code >= 0xDC00 && code < 0xE000
		switch {
		case code == 0:
			return "has a NUL, which PostgreSQL text cannot hold"
		case low != high:
			return "has half of a surrogate pair"
		}
		high = code >= 0xD800 && code < 0xDC00
	}
	return ""
}
