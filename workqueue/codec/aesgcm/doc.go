// Package aesgcm is a codec that encrypts with AES-GCM, from the standard library alone.
//
// What another codec encodes, JSON unless told otherwise, is sealed under the current key, and opened under
// whichever known key has sealed it. The bytes are bound to their table, row id, field and tenant: copied to
// another row, or kept while a row's tenant is changed, they do not open.
//
// Topic, key, kind, headers, due times and errors of a row stay readable: the database works with them.
// Encryption hides payloads from those who read the table, its backups and its replicas. It does not keep somebody who
// may write the table from deleting rows, or from putting back an older payload of the same row.
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
// Rows outlive deploys, so a key is known everywhere before anybody seals with it, and until nothing is
// sealed with it:
//
//  1. Deploy the new key among Options.Older, to every process that opens.
//
//  2. Deploy it as Options.Current, and the old one among Options.Older.
//
//  3. When no row has the old key, deploy without it. [KeyID] reads the id of a payload; for a table:
//
//     SELECT convert_from(substr(payload, 3, get_byte(payload, 1)), 'UTF8') AS key_id, count(*)
//     FROM txwork.outbox GROUP BY 1
//
// A worker without the key fails the attempt with [ErrUnknownKey], and the row is tried again by the table's policy:
// the steps may overlap for as long as its attempts last. What became a dead letter meanwhile can be redriven.
// Rows that were done stay sealed with the key of their time until they are purged.
//
// A random nonce of 96 bits allows 2³² payloads under one key before the chance of a repeated nonce passes one in 2³²
// (NIST SP 800-38D, section 8.3). Rotate earlier than that.
package aesgcm
