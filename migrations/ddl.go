package migrations

import (
	"fmt"

	"github.com/txwork/txwork/workqueue"
)

// DDL returns a goose migration for a table of your own: the table of the Spec with its indexes, its trigger and its
// SQL functions, and the statements that drop them. Save it among your application's migrations; it needs none of
// txwork's own.
//
// Its Up creates the schema if that is missing, its Down leaves the schema alone. Run it only with goose: to psql the
// annotations are comments, so it would run Up and then Down.
func DDL(spec workqueue.Spec) (string, error) {
	up, down, err := spec.DDL()
	if err != nil {
		return "", err
	}
	schema, err := schemaOrDefault(spec.Schema)
	if err != nil {
		return "", err
	}
	return ddlHeader(spec) + gooseFile(render("schema.sql", schema)+"\n"+up, down), nil
}

func ddlHeader(spec workqueue.Spec) string {
	return fmt.Sprintf("-- The txwork table %s. For goose only: psql would run Up and then Down.\n\n", spec.Name())
}
