-- A session sees and writes only the rows of its tenant. Without the setting, current_setting returns NULL, or the
-- empty text after a transaction that set it has ended. No row has either as its tenant, so nothing can be read or
-- written.
ALTER TABLE example_tenants.documents
    ADD CONSTRAINT documents_tenant_check CHECK (tenant <> ''),
    ENABLE ROW LEVEL SECURITY;

CREATE POLICY documents_tenant ON example_tenants.documents
    USING (tenant = current_setting('app.tenant', true))
    WITH CHECK (tenant = current_setting('app.tenant', true));
