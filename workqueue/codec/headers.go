package codec

import "github.com/txwork/txwork/internal/header"

// ReadHeaders are a row's headers as a claim returns them, for domains that read rows by themselves. Encoded is the
// column as text, nil for NULL. It never fails: a row whose headers were written by hand still has to be delivered. A
// value that is no string is given as its JSON text, and headers that are no object are none.
func ReadHeaders(encoded *string) map[string]string { return header.Read(encoded) }
