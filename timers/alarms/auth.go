package alarms

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"

	"github.com/txwork/txwork/workqueue/validate"
)

// An Owner identifies whose alarms a request may read and change.
type Owner struct {
	DID    string `json:"owner_did"` // owns the alarms
	UserID string `json:"user_id"`   // receives the wakes of alarms that are created
}

// ErrUnauthorized says that the owner of a request could not be determined.
var ErrUnauthorized = errors.New("unauthorized")

// An Authenticator determines the owner of a request. It returns [ErrUnauthorized] if the request's credentials are
// missing or invalid. Any other error is treated as a failure of the Authenticator itself. It is called concurrently.
type Authenticator interface {
	Authenticate(r *http.Request) (Owner, error)
}

// minToken is the length, in bytes, that makes a token hard to guess.
const minToken = 16

// Tokens authenticate requests by bearer tokens. They keep only the hashes of the tokens.
type Tokens struct{ entries []tokenEntry }

type tokenEntry struct {
	hash  [sha256.Size]byte
	owner Owner
}

// NewTokens takes a map from each token to its owner, with at least one entry. A token needs at least 16 bytes.
func NewTokens(owners map[string]Owner) (*Tokens, error) {
	if len(owners) == 0 {
		return nil, validate.Errorf("tokens", "are missing: nobody could use the API")
	}
	t := &Tokens{}
	for token, owner := range owners {
		err := cmp.Or(checkToken(token), checkRequired("owner_did", owner.DID, MaxOwner), checkRequired("user_id",
			owner.UserID, MaxOwner))
		if err != nil {
			return nil, err
		}
		t.entries = append(t.entries, tokenEntry{sha256.Sum256([]byte(token)), owner})
	}
	return t, nil
}

// checkToken never quotes the token in its error, because the token is secret.
func checkToken(token string) error {
	if len(token) < minToken {
		return validate.Errorf("token", "has %d bytes, it must have at least %d", len(token), minToken)
	}
	if strings.TrimSpace(token) != token || strings.ContainsAny(token, "\r\n\x00") {
		return validate.Errorf("token", "begins or ends with a space, or has a line break or a NUL")
	}
	return nil
}

// ParseTokens reads tokens from JSON: an object with a member for each token.
//
//	{"a-long-random-token": {"owner_did": "did:matrix:user:key", "user_id": "user"}}
func ParseTokens(text []byte) (*Tokens, error) {
	var owners map[string]Owner
	if err := decodeStrictly(text, &owners); err != nil {
		return nil, validate.Errorf("tokens", "cannot be read: want an object of {\"<token>\": {\"owner_did\": …, "+
			"\"user_id\": …}}")
	}
	return NewTokens(owners)
}

// Authenticate implements [Authenticator]. It compares the hash with those of all tokens, even after a match, so that
// its duration reveals nothing about any token.
func (t *Tokens) Authenticate(r *http.Request) (Owner, error) {
	hash := sha256.Sum256([]byte(bearer(r)))
	match, found := 0, 0
	for i, e := range t.entries {
		same := subtle.ConstantTimeCompare(hash[:], e.hash[:])
		match = subtle.ConstantTimeSelect(same, i, match)
		found |= same
	}
	if found == 0 {
		return Owner{}, ErrUnauthorized
	}
	return t.entries[match].owner, nil
}

// bearer returns the token of the Authorization header, or an empty one, which no owner has.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
