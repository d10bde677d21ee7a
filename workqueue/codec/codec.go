package codec

import (
	"context"

	"github.com/google/uuid"
)

// TenantHeader is the header that carries a row's tenant.
const TenantHeader = "txwork-tenant"

// A Codec makes bytes of values and values of bytes. It is safe for concurrent use.
type Codec interface {
	// Encode makes the bytes that are stored. It does not keep v.
	Encode(ctx context.Context, e Envelope, v any) ([]byte, error)
	// Decode reads what Encode has made into what the pointer points to. It does not keep data.
	Decode(ctx context.Context, e Envelope, data []byte, into any) error
}

// An Envelope says which row bytes belong to. A Codec may bind them to all of it but Headers: some of those
// are added after encoding, such as the trace context, or later, such as who redrove the row.
type Envelope struct {
	Table   string    // qualified, such as txwork.outbox
	ID      uuid.UUID // of the row, or what [KeyID] made of its key
	Field   string    // which of the row's values, where it has several: empty for its payload
	Headers map[string]string
	Tenant  string // the header [TenantHeader]; empty for none
}

// NewEnvelope is the envelope of a row's payload: the tenant is taken from the headers, which may be nil.
func NewEnvelope(table string, id uuid.UUID, headers map[string]string) Envelope {
	return Envelope{Table: table, ID: id, Headers: headers, Tenant: headers[TenantHeader]}
}
