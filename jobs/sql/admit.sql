-- See the function. The claim's commit waits for no disk, as that of every claim: one that a crash loses was
-- never made, and its slots and tokens were not taken either.
SELECT a.admitted, a.again, a.bounded, set_config('synchronous_commit', 'off', true)
FROM {{.Function "admit"}}($1::text, $2::integer) AS a
