package pgtest

// RefuseWrites is a setting of a session under which [RefusingWrites] has a table refuse them.
const RefuseWrites = "txwork_test.refuse_writes"

// RefusingWrites makes the trigger by which a table refuses writes as a read-only server does, in sessions in which
// the setting [RefuseWrites] is on. A session's default_transaction_read_only would not do: txwork begins READ WRITE.
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
