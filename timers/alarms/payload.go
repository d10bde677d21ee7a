package alarms

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/txwork/txwork/workqueue/validate"
)

// checkPayload refuses what jsonb refuses, so that a statement does not fail half-way through an application's
// transaction, and numbers that jsonb would write out as more digits than a payload may have bytes.
func checkPayload(payload json.RawMessage, limit int) error {
	const field = "payload"
	if err := validate.Size(field, len(payload), limit); err != nil {
		return err
	}
	if err := validate.JSON(field, payload); err != nil {
		return err
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
				return validate.Errorf("payload", "is nested deeper than %d", MaxPayloadDepth)
			}
		case json.Number:
			if size += exponent(v.String()); size > limit {
				return validate.Errorf("payload", "has numbers that are written out with more than %d digits", limit)
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
