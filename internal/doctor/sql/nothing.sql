-- Whether the table can be read: it is locked and its privileges are checked.
SELECT FROM {{.Table}} LIMIT 0
