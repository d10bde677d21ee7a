package migrations

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/txwork/txwork/internal/sqltext"
)

var (
	madeRelation = regexp.MustCompile(`(?m)^CREATE (?:TABLE|SEQUENCE) (("[^"]+")\."[^"]+")`)
	madeTrigger  = regexp.MustCompile(`(?m)^CREATE FUNCTION "[^"]+"\."([^"]+)"\(\) RETURNS trigger$`)
)

// takenBack is the down direction. Before it drops anything it locks what the migration has made, the sequences that
// came with its columns, and the tables of others that have its triggers. DROP locks them one after the other, in an
// order that others do not have: one of both would be cancelled because of a deadlock.
func (m migration) takenBack() string {
	relations := madeRelation.FindAllStringSubmatch(m.up, -1)
	if len(relations) == 0 {
		return m.down
	}
	const text = `DO $txwork$
DECLARE
    made CONSTANT text[] := ARRAY[%[1]s];
    triggers CONSTANT name[] := ARRAY[%[2]s]::name[];
BEGIN
    %[3]s
END
$txwork$;
`
	const all = `made || ARRAY(
            SELECT d.objid::regclass::text FROM pg_depend AS d JOIN pg_class AS c ON c.oid = d.objid
            WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'i'
              AND c.relkind = 'S' AND d.refobjid = ANY (made::regclass[]))
        || ARRAY(
            SELECT DISTINCT t.tgrelid::regclass::text FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
            WHERE p.pronamespace = '%s'::regnamespace AND p.proname = ANY (triggers))`
	return fmt.Sprintf(text, listed(relations), listed(madeTrigger.FindAllStringSubmatch(m.up, -1)),
		sqltext.LockToDrop(fmt.Sprintf(all, relations[0][2]))) + m.down
}

// listed are the first groups of matches, as strings of SQL.
func listed(found [][]string) string {
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = "\n        '" + f[1] + "'"
	}
	return strings.Join(names, ",")
}
