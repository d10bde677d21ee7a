// Package codec turns the values of an application into the bytes of a row, and back.
//
// The core and the domains carry bytes. A [Codec] says what they mean: [JSON] unless told otherwise, [Raw]
// for bytes that somebody else has made, package aesgcm for those that the database's readers must not
// understand, or one of your own.
//
// # The envelope
//
// A Codec is told which row it works for: an [Envelope] has its table, id, headers and tenant. A codec that
// encrypts binds the bytes to them, so that what was copied to another row is refused. The id therefore has
// to be known before the value is encoded, and a domain makes it with [NewID]; so does an application that
// encodes by itself and sets the row's ID. Where rows are found and overwritten under a key of the application's, as
// timers are, the row's id is not known in time: [KeyID] stands in for it.
//
// The tenant is the header [TenantHeader]. It is a header, and no column, so that every domain has it and
// rows without a tenant store nothing for it.
//
// # Handlers
//
// [Handler] makes a handler of a function that takes the decoded value:
//
//	relay.Handle("order.placed", codec.Handler(func(ctx context.Context, m *outbox.Delivery, o Order) error {
//		return ship(ctx, o)
//	}))
//
// What does not decode is a failed attempt with a [*DecodeError]: it is retried by the table's policy, since a
// worker that understands it may be on its way, as in a rolling deploy or a rotation of keys, and then is a dead letter with
// that error. The row and its bytes are kept.
//
// [Bind] is for code that encodes and decodes by itself, such as a codec for one topic only.
//
// # Codecs of your own
//
// A Codec is safe for concurrent use, returns an error where it cannot and never panics: the bytes come from
// a table that others may write to. Its errors are stored as last_error and logged, so what is secret stays
// out of them.
package codec
