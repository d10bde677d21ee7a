package log

import (
	"fmt"
	"strings"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
	"github.com/txwork/txwork/workqueue/topics"
)

// rows is the table of an outbox that moves to the log.
const rows = "outbox"

// rowsColumns are those of a row. A column of another name would be lost.
var rowsColumns = strings.Fields("id due_at created_at max_attempts attempts status waiting locked_until completed_at " +
	"owner_token failed_at cancelled_at last_error headers retry topic key payload dedup_key joined concurrency_key " +
	"key_limit key_policy key_rate key_burst key_seq aside")

// movedKeys bounds the keys that are moved in one transaction, each of which holds a lock.
const movedKeys = 200

// Rows is the table of rows, RowsNamed one that belongs to it, and RowsName its name without quotes.
func (v view) Rows() string { return fmt.Sprintf("%q.%q", v.schema, rows) }
func (v view) RowsNamed(suffix string) string {
	return fmt.Sprintf("%q.%q", v.schema, rows+"_"+suffix)
}
func (v view) RowsName() string  { return v.schema + "." + rows }
func (view) Table() string       { return name }
func (view) RowsColumns() string { return strings.Join(rowsColumns, ",") }
func (view) MovedKeys() int      { return movedKeys }
func (view) TopicBytes() int     { return topics.MaxLength }
func (v view) SeesRows() string  { return sqltext.SeesAll(v.Rows()) }
func (v view) rows() workqueue.Spec {
	return workqueue.Spec{Schema: v.schema, Table: rows, Topics: workqueue.Topics{Columns: []string{"topic"}}}
}

// RefusesBeforeSwitch refuses a transaction whose snapshot is from before the switch.
func (v view) RefusesBeforeSwitch() string {
	return fmt.Sprintf(`IF EXISTS (SELECT FROM %s AS s WHERE s.successor IS NULL) THEN
        RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
            MESSAGE = '%s has moved to the log %s since this transaction began',
            HINT = 'Repeat the transaction.';
    END IF;`, v.Named("state"), v.RowsName(), v.Name())
}

// UnfinishedOf and Blocking are those of [keyed.Unfinished].
func (v view) UnfinishedOf(keys string) string {
	query, _ := keyed.Unfinished(v.rows(), keys, "")
	return query
}
func (v view) Blocking(row string) string {
	_, is := keyed.Unfinished(v.rows(), "", row)
	return is
}
