-- A row is its tenant's, whoever asks. Without the setting current_setting is NULL, or the empty text once a
-- transaction has set it and ended: no row has either, so nothing is seen and nothing can be written.
ALTER TABLE example_tenants.documents
    ADD CONSTRAINT documents_tenant_check CHECK (tenant <> ''),
    ENABLE ROW LEVEL SECURITY;

CREATE POLICY documents_tenant ON example_tenants.documents
    USING (tenant = current_setting('app.tenant', true))
    WITH CHECK (tenant = current_setting('app.tenant', true));
