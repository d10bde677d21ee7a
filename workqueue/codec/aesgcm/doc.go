// Package aesgcm is a codec that encrypts with AES-GCM, from the standard library alone.
//
// The codec encrypts what its inner codec encodes, JSON by default, with the current key. It decrypts with any key that
// it knows. The ciphertext is bound to its table, row id, field and tenant. A payload that was copied to another row,
// or whose row's tenant was changed, does not decrypt.
//
// Encryption protects payloads from readers of the table, its backups and its replicas. The topic, key, kind, headers,
// due times and errors of a row stay readable, because the database works with them. Encryption does not protect
// against someone who can write to the table: they can delete rows, and restore an older payload of the same row.
//
// # Format
//
//	byte 0        version, 1
//	byte 1        length n of the key id, 1 to 64
//	n bytes       key id
//	12 bytes      nonce, random
//	the rest      ciphertext, then the tag of 16 bytes
//
// The additional data is bytes 0 to n+1, then table, row id, field and tenant, each with its length before it.
//
// # Rotating keys
//
// Rows outlive deploys. Every process must know a key before any process encrypts with it, and for as long as a row is
// encrypted with it:
//
//  1. Add the new key to Options.Older, and deploy this to every process that decrypts.
//
//  2. Make it Options.Current, move the old key to Options.Older, and deploy.
//
//  3. When no row uses the old key any more, remove it and deploy. [KeyID] returns the key id of a payload.
//
// To count the rows of a table by key:
//
//	SELECT convert_from(substr(payload, 3, get_byte(payload, 1)), 'UTF8') AS key_id, count(*)
//	FROM txwork.outbox GROUP BY 1
//
// A worker that lacks the key fails the attempt with [ErrUnknownKey], and the row is retried by the table's policy.
// Steps may therefore overlap for as long as the row has attempts left, and a dead letter can be redriven. Rows that
// are done stay encrypted with their key until they are purged.
//
// A random nonce of 96 bits allows 2³² payloads under one key before the chance of a repeated nonce passes one in 2³²
// (NIST SP 800-38D, section 8.3). Rotate earlier than that.
package aesgcm
