package aesgcm

import (
	"encoding/binary"

	"github.com/txwork/txwork/workqueue/codec"
)

// version is the format's, see the package documentation.
const version = 1

// headerSize is what comes before the key id.
const headerSize = 2

func header(keyID string) []byte {
	return append([]byte{version, byte(len(keyID))}, keyID...)
}

// split finds the key id and what comes after it.
func split(sealed []byte) (keyID string, body []byte, err error) {
	if len(sealed) < headerSize || sealed[0] != version {
		return "", nil, ErrFormat
	}
	n := int(sealed[1])
	if len(sealed) < headerSize+n {
		return "", nil, ErrFormat
	}
	keyID = string(sealed[headerSize : headerSize+n])
	if !keyIDPattern.MatchString(keyID) {
		return "", nil, ErrFormat
	}
	return keyID, sealed[headerSize+n:], nil
}

// KeyID tells which key has sealed a payload, without opening it. It proves nothing, because anyone may have written
// the bytes.
func KeyID(sealed []byte) (string, error) {
	id, _, err := split(sealed)
	if err != nil {
		return "", &OpenError{reason: err}
	}
	return id, nil
}

// additional is what is authenticated beside the payload. Lengths keep the parts apart.
func additional(header []byte, e codec.Envelope) []byte {
	data := append([]byte{}, header...)
	for _, part := range []string{e.Table, string(e.ID[:]), e.Field, e.Tenant} {
		data = binary.AppendUvarint(data, uint64(len(part)))
		data = append(data, part...)
	}
	return data
}
