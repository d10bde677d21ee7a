-- Makes PostgreSQL qualify the schema's names and print constants in one way, as pg_dump does. What follows is one
-- large statement that reads few rows, which PostgreSQL would compile for longer than it runs.
SET LOCAL search_path = pg_catalog;
SET LOCAL quote_all_identifiers = off;
SET LOCAL DateStyle = ISO;
SET LOCAL IntervalStyle = postgres;
SET LOCAL TimeZone = 'UTC';
SET LOCAL extra_float_digits = 1;
SET LOCAL bytea_output = hex;
SET LOCAL jit = off;
