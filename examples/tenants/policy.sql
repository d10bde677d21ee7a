-- A session sees and writes only the jobs of its tenant, which has the queue of its name. Without the setting,
-- current_setting returns NULL, or the empty text after a transaction that set it has ended. No job has either as its
-- queue, so nothing can be read or written. Keys and schedules are compared across all queues: those of a tenant begin
-- with its name.
ALTER TABLE example_tenants.jobs ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON example_tenants.jobs
    USING (queue = current_setting('app.tenant', true))
    WITH CHECK (queue = current_setting('app.tenant', true)
        AND coalesce(starts_with(concurrency_key, queue || ':'), true)
        AND coalesce(starts_with(schedule, queue || ':'), true));

ALTER TABLE example_tenants.jobs_schedule ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON example_tenants.jobs_schedule
    USING (starts_with(name, current_setting('app.tenant', true) || ':'));

-- Messages belong to the tenant with whose name their topic begins.
ALTER TABLE example_tenants.outbox ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON example_tenants.outbox
    USING (starts_with(topic, current_setting('app.tenant', true) || ':'))
    WITH CHECK (starts_with(topic, current_setting('app.tenant', true) || ':')
        AND coalesce(starts_with(key, current_setting('app.tenant', true) || ':'), true));

-- The tables of keys, joins, attempts, steps, limits and topics follow.
SELECT example_tenants.jobs_key_policies(), example_tenants.jobs_join_policies(), example_tenants.jobs_policies(),
    example_tenants.outbox_key_policies(), example_tenants.outbox_join_policies(),
    example_tenants.outbox_topic_policies();
