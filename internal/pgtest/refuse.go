package pgtest

// RefuseWrites is a session setting that makes the trigger of [RefusingWrites] refuse writes.
const RefuseWrites = "txwork_test.refuse_writes"

// RefusingWrites returns SQL for a trigger that makes a table refuse writes as a read-only server does, in sessions in
// which the setting [RefuseWrites] is on. A session's default_transaction_read_only would not suffice, because txwork
// begins its transactions READ WRITE.
func RefusingWrites(table string) string {
	return `CREATE FUNCTION refuse_writes() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF current_setting('` + RefuseWrites + `', true) = 'on' THEN
				RAISE 'cannot write in a read-only transaction' USING ERRCODE = 'read_only_sql_transaction';
			END IF;
			RETURN NULL;
		END $$;
		CREATE TRIGGER refuse_writes BEFORE INSERT OR UPDATE OR DELETE ON ` + table + ` FOR EACH STATEMENT EXECUTE FUNCTION refuse_writes()`
}
