package txworktest

import (
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// parseValue reads a domain column of one of the types that a Spec may have.
func parseValue(typ string, data json.RawMessage) (any, error) {
	if string(data) == "null" {
		return nil, nil
	}
	switch typ {
	case "bigint", "integer", "smallint":
		return parse[int64](data)
	case "double precision":
		return parse[float64](data)
	case "boolean":
		return parse[bool](data)
	case "timestamptz":
		return parse[time.Time](data)
	case "uuid":
		return parse[uuid.UUID](data)
	case "jsonb":
		return data, nil
	case "bytea":
		text, err := parse[string](data)
		if err != nil {
			return nil, err
		}
		return hex.DecodeString(text)
	}
	return parse[string](data)
}

func parse[T any](data json.RawMessage) (v T, err error) {
	err = json.Unmarshal(data, &v)
	return v, err
}
