-- What the session's role lacks to create, show and cancel alarms, and, with $1, to deliver them.
SELECT r.needs
FROM (VALUES
    ('SELECT on alarms', false, has_table_privilege('{{.Table}}', 'SELECT')),
    ('INSERT on alarms', false, has_any_column_privilege('{{.Table}}', 'INSERT')),
    ('UPDATE (status) on alarms', false, has_column_privilege('{{.Table}}', 'status', 'UPDATE')),
    ('SELECT on timers', false, has_table_privilege('{{.Timers}}', 'SELECT')),
    ('INSERT on timers', false, has_any_column_privilege('{{.Timers}}', 'INSERT')),
    ('UPDATE (due_at) on timers', false, has_column_privilege('{{.Timers}}', 'due_at', 'UPDATE')),
    ('UPDATE (next_fire_at) on alarms', true, has_column_privilege('{{.Table}}', 'next_fire_at', 'UPDATE')),
    ('UPDATE (locked_until) on timers', true, has_column_privilege('{{.Timers}}', 'locked_until', 'UPDATE')),
    ('a primary server', false, NOT pg_is_in_recovery())
) AS r (needs, to_deliver, has)
WHERE NOT r.has AND ($1::boolean OR NOT r.to_deliver)
