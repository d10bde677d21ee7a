package codec

import (
	"context"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/header"
)

// TenantHeader is the header that carries a row's tenant.
const TenantHeader = "txwork-tenant"

// A Codec encodes values into payloads, and decodes payloads into values. It is safe for concurrent use.
type Codec interface {
	// Encode returns the bytes to store. It does not retain v.
	Encode(ctx context.Context, e Envelope, v any) ([]byte, error)
	// Decode decodes data, which Encode returned, into the value that into points to. It does not retain data.
	Decode(ctx context.Context, e Envelope, data []byte, into any) error
}

// An Envelope names the row that a payload belongs to. A Codec may bind the payload to every field but Headers: some
// headers are added after encoding, such as the trace context, and some later, such as the name of the person who
// redrove the row.
type Envelope struct {
	Table   string    // qualified, such as txwork.outbox
	ID      uuid.UUID // of the row, or the result of [KeyID] for its key
	Field   string    // the name of the value if the row has several; empty for its payload
	Headers map[string]string
	Tenant  string // the header [TenantHeader]; empty if there is none
}

// NewEnvelope returns the envelope of a row's payload. It takes the tenant from the headers, which may be nil.
func NewEnvelope(table string, id uuid.UUID, headers map[string]string) Envelope {
	tenant, _ := header.Get(headers, TenantHeader)
	return Envelope{Table: table, ID: id, Headers: headers, Tenant: tenant}
}
