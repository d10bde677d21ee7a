package aesgcm

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"regexp"
)

// A Key is a secret and its id. The id is stored with each payload that the key encrypts.
type Key struct {
	// ID is 1 to 64 letters, digits, dots, colons, slashes, dashes and underscores. It is not secret.
	ID string
	// Secret is 16, 24 or 32 random bytes, for AES-128, AES-192 or AES-256. It is not retained.
	Secret []byte
}

// maxKeyID is in bytes.
const maxKeyID = 64

var keyIDPattern = regexp.MustCompile(`^[A-Za-z0-9._:/-]{1,64}$`)

// ring has the keys by their ids.
type ring map[string]cipher.AEAD

func newRing(keys []Key) (ring, error) {
	r := ring{}
	for _, k := range keys {
		aead, err := k.aead()
		if err != nil {
			return nil, err
		}
		if r[k.ID] != nil {
			return nil, fmt.Errorf("aesgcm: there are two keys %q: an id names one secret, for ever", k.ID)
		}
		r[k.ID] = aead
	}
	return r, nil
}

// aead returns a cipher that makes its own nonces, and puts them before the ciphertext.
func (k Key) aead() (cipher.AEAD, error) {
	if !keyIDPattern.MatchString(k.ID) {
		return nil, fmt.Errorf("aesgcm: key id %q must be 1 to %d letters, digits and . : / - _", k.ID, maxKeyID)
	}
	block, err := aes.NewCipher(k.Secret)
	if err != nil {
		return nil, fmt.Errorf("aesgcm: key %q has %d bytes, it must have 16, 24 or 32", k.ID, len(k.Secret))
	}
	return cipher.NewGCMWithRandomNonce(block)
}
