package webui

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/txwork/txwork/workqueue/validate"
)

const (
	// iterations of PBKDF2 with SHA-256: what OWASP asks for.
	iterations = 600_000

	// Bounds of what a hash may ask for: fewer would be weak, more would take a processor for seconds.
	minIterations, maxIterations = 100_000, 5_000_000

	saltBytes   = 16
	minPassword = 8
	minToken    = 20
	hashScheme  = "pbkdf2-sha256"
)

// HashPassword returns what [Account].PasswordHash keeps of a password, which needs at least 8 bytes.
func HashPassword(text string) (string, error) {
	if len(text) < minPassword {
		return "", validate.Errorf("password", "has %d bytes, it must have at least %d", len(text), minPassword)
	}
	salt := make([]byte, saltBytes)
	rand.Read(salt)
	key, err := pbkdf2.Key(sha256.New, text, salt, iterations, sha256.Size)
	if err != nil {
		return "", err
	}
	encode := base64.RawStdEncoding.EncodeToString
	return strings.Join([]string{hashScheme, strconv.Itoa(iterations), encode(salt), encode(key)}, "$"), nil
}

// HashToken returns what [Account].TokenHash keeps of a token, which needs at least 20 random characters: tokens are
// not stretched as passwords are.
func HashToken(token string) (string, error) {
	if len(token) < minToken || strings.TrimSpace(token) != token {
		return "", validate.Errorf("token", "has %d bytes, or begins or ends with a space: it must have at least %d bytes, "+
			"and no such space", len(token), minToken)
	}
	hash := sha256.Sum256([]byte(token))
	return hex.EncodeToString(hash[:]), nil
}

// A password is one that was hashed.
type password struct {
	iterations int
	salt, key  []byte
}

func parsePassword(hash string) (p password, err error) {
	parts := strings.Split(hash, "$")
	if len(parts) != 4 || parts[0] != hashScheme {
		return p, errors.New("not of this form")
	}
	if p.iterations, err = strconv.Atoi(parts[1]); err != nil || p.iterations < minIterations ||
		p.iterations > maxIterations {
		return p, fmt.Errorf("%s iterations", parts[1])
	}
	if p.salt, err = base64.RawStdEncoding.DecodeString(parts[2]); err != nil || len(p.salt) < saltBytes {
		return p, errors.New("no salt")
	}
	if p.key, err = base64.RawStdEncoding.DecodeString(parts[3]); err != nil || len(p.key) != sha256.Size {
		return p, errors.New("no key")
	}
	return p, nil
}

func (p password) is(text string) bool {
	key, err := pbkdf2.Key(sha256.New, text, p.salt, p.iterations, len(p.key))
	return err == nil && subtle.ConstantTimeCompare(key, p.key) == 1
}
