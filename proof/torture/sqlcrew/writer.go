package sqlcrew

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// An Object is a row to be written, by the names that the functions for many rows have for its values. A delay, in
// seconds, stands for scheduled_at, since only the server's clock counts.
type Object map[string]any

// Written is what a function that writes rows says of one.
type Written struct {
	ID        string
	Duplicate bool
}

// few rows are written one by one. Many in one transaction would take the locks of their keys in an order of their own.
const few = 2

// Write writes rows by a function such as outbox_enqueue, or by its sister for many rows.
func Write(ctx context.Context, tx pgx.Tx, schema, function string, objects ...Object) (all []Written, err error) {
	if len(objects) > few {
		encoded, err := json.Marshal(objects)
		if err != nil {
			return nil, err
		}
		return written(tx.Query(ctx, fmt.Sprintf(`SELECT id::text, duplicate FROM %s.%s_many((
			SELECT jsonb_agg(CASE WHEN o ? 'delay' THEN o - 'delay' || jsonb_build_object('scheduled_at',
				now() + (o->>'delay')::float8 * interval '1 second') ELSE o END ORDER BY place)
			FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY AS e (o, place))) ORDER BY place`, schema, function),
			string(encoded)))
	}
	for _, o := range objects {
		encoded, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		one, err := written(tx.Query(ctx, fmt.Sprintf("SELECT id::text, duplicate FROM %s.%s(%s)", schema, function,
			arguments(o)), string(encoded)))
		if err != nil {
			return nil, err
		}
		all = append(all, one...)
	}
	return all, nil
}

func written(rows pgx.Rows, err error) ([]Written, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Written])
}

// arguments takes those of a function for one row out of an object.
func arguments(o Object) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(o)) {
		value := "($1::jsonb->>'" + name + "')"
		switch name {
		case "delay":
			name, value = "scheduled_at", "now() + "+value+"::float8 * interval '1 second'"
		case "id":
			value += "::uuid"
		case "max_attempts":
			value += "::int"
		case "body_hash_base64":
			name, value = "body_hash", "decode("+value+", 'base64')"
		default:
			name = strings.TrimSuffix(name, "_text")
		}
		all = append(all, name+" => "+value)
	}
	return strings.Join(all, ", ")
}

// CancelTimer cancels a timer by its key.
func CancelTimer(ctx context.Context, tx pgx.Tx, schema, key string) error {
	_, err := tx.Exec(ctx, "SELECT key, result FROM "+schema+".timers_cancel($1::text[])", []string{key})
	return err
}

// Begin begins to process a message from outside in the transaction of its effects. If it is false, somebody else does,
// or has.
func Begin(ctx context.Context, tx pgx.Tx, schema, consumer, source, id string, hash []byte) (mine bool, err error) {
	var answer string
	err = tx.QueryRow(ctx, "SELECT answer FROM "+schema+".inbox_begin($1::text, $2::text, $3::text, $4::bytea)",
		consumer, source, id, hash).Scan(&answer)
	return answer == "processed", err
}
