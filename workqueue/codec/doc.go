// Package codec encodes an application's values into the payload of a row, and decodes them.
//
// The core and the domains store bytes. A [Codec] gives them their meaning: [JSON] by default, [Raw] for bytes that are
// encoded already, package aesgcm for encryption, or a codec of your own.
//
// # The envelope
//
// A Codec receives an [Envelope], which names the row: its table, id, headers and tenant. A codec that encrypts binds
// the payload to the envelope, so that a payload copied to another row does not decrypt. The id must therefore be known
// before the value is encoded. The domains make it with [NewID]; do the same if you encode a payload yourself, and set
// the row's ID. Some rows are found and overwritten by a key of the application, as timers are, so their id is not
// known in time. For them, [KeyID] derives an id from the key.
//
// The tenant is the header [TenantHeader]. It is a header and not a column, so that every domain has it, and rows
// without a tenant store nothing for it.
//
// # Handlers
//
// [Handler] makes a domain's handler from a function that takes the decoded value:
//
//	relay.Handle("order.placed", codec.Handler(func(ctx context.Context, m *outbox.Delivery, o Order) error {
//		return ship(ctx, o)
//	}))
//
// If a payload does not decode, the attempt fails with a [*DecodeError] and is retried by the table's policy, because a
// worker that can decode it may be on its way, as in a rolling deploy or a key rotation. After the last attempt the row
// is a dead letter with that error. The row and its bytes are kept.
//
// Use [Bind] in code that encodes and decodes by itself, such as a codec for one topic only.
//
// # Codecs of your own
//
// A Codec must be safe for concurrent use. It returns an error if it cannot encode or decode, and never panics, because
// the bytes come from a table that others may write to. Its errors are stored in last_error and logged, so they must
// not contain secrets.
package codec
