{{- /* Refuses more locks of keys' writers in a transaction than the server can spare. */ -}}
{{define "turns" -}}
    -- The look takes longer than the rest.
    IF pg_catalog.random() OPERATOR(pg_catalog.<) 0.002::pg_catalog.float8 THEN
        IF (SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks AS l
                WHERE l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()
                  AND l.locktype OPERATOR(pg_catalog.=) 'advisory') OPERATOR(pg_catalog.>) ({{.QualifiedTurns}}) THEN
            RAISE EXCEPTION USING ERRCODE = 'program_limit_exceeded',
                MESSAGE = 'this transaction has written too many keys: '
                    'each holds one of the locks that the whole server shares',
                HINT = 'write fewer keys in one transaction, or raise max_locks_per_transaction';
        END IF;
    END IF;
{{- end}}
