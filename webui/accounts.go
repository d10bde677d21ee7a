package webui

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/validate"
)

// An Account is a user with a password, a bearer token, or both.
type Account struct {
	User

	// PasswordHash is what [HashPassword] returned. Default: the account has no password.
	PasswordHash string

	// TokenHash is what [HashToken] returned. Default: the account has no token.
	TokenHash string
}

// Accounts authenticate by passwords (HTTP basic authentication) and bearer tokens. They keep hashes only. Use them
// over TLS: both are sent with every request.
type Accounts struct {
	byName  map[string]*credentials
	byToken map[[sha256.Size]byte]User
	secret  []byte // of this process, for what it remembers of passwords
	nobody  password
	derives chan struct{}
	failed  failures
}

// credentials are those of an account with a password. To check one takes a fifth of a second on purpose, and browsers
// send it with every request, so a digest of the one that was right is remembered.
type credentials struct {
	User
	password

	mu    sync.Mutex
	right []byte
}

// turn is how long a password waits for its turn to be checked.
const turn = 2 * time.Second

// NewAccounts returns accounts with different names, each with a password or a token.
func NewAccounts(accounts ...Account) (*Accounts, error) {
	if len(accounts) == 0 {
		return nil, validate.Errorf("accounts", "are missing: nobody could look")
	}
	a := &Accounts{byName: map[string]*credentials{}, byToken: map[[sha256.Size]byte]User{}, secret: make([]byte, 32),
		derives: make(chan struct{}, 1), failed: failures{all: map[string]failure{}}}
	rand.Read(a.secret)
	a.nobody = password{iterations: iterations, salt: a.secret, key: a.secret}
	names := map[string]bool{}
	for _, account := range accounts {
		if name := account.Name; name == "" || strings.Contains(name, ":") || names[name] {
			return nil, validate.Errorf("accounts", "have the name %q: each needs a name of its own, without a colon", name)
		}
		names[account.Name] = true
		if err := a.add(account); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *Accounts) add(account Account) error {
	if account.PasswordHash == "" && account.TokenHash == "" {
		return validate.Errorf("account "+account.Name, "has neither a password nor a token")
	}
	if err := account.checkQueues(); err != nil {
		return err
	}
	if account.PasswordHash != "" {
		p, err := parsePassword(account.PasswordHash)
		if err != nil {
			return validate.Errorf("account "+account.Name, "has a PasswordHash that HashPassword did not make")
		}
		a.byName[account.Name] = &credentials{User: account.User, password: p}
	}
	if account.TokenHash != "" {
		hash, err := hex.DecodeString(account.TokenHash)
		if err != nil || len(hash) != sha256.Size || [sha256.Size]byte(hash) == sha256.Sum256(nil) {
			return validate.Errorf("account "+account.Name, "has a TokenHash that HashToken did not make")
		}
		key := [sha256.Size]byte(hash)
		if _, taken := a.byToken[key]; taken {
			return validate.Errorf("account "+account.Name, "has the token of another account")
		}
		a.byToken[key] = account.User
	}
	return nil
}

// checkQueues refuses queues that show nothing, or that contradict the tables.
func (a Account) checkQueues() error {
	for table, queues := range a.Queues {
		switch {
		case len(queues) == 0:
			return validate.Errorf("account "+a.Name, "has no queue of table %q", table)
		case slices.Contains(a.Tables, table):
			return validate.Errorf("account "+a.Name, "has table %q as a whole and by queue", table)
		case table == postgres.LogTable || table == "alarms":
			return validate.Errorf("account "+a.Name, "has queues of %s, which is shown as a whole only", table)
		}
	}
	return nil
}

// Authenticate is for [Config].Authenticate.
func (a *Accounts) Authenticate(r *http.Request) (User, error) {
	if name, text, ok := r.BasicAuth(); ok {
		return a.basic(r, name, text)
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	user, ok := a.byToken[sha256.Sum256([]byte(strings.TrimSpace(token)))]
	if ok && strings.EqualFold(scheme, "Bearer") {
		return user, nil
	}
	return User{}, a.challenge()
}

// challenge asks for passwords if there are any, since browsers can only answer that.
func (a *Accounts) challenge() challenge {
	if len(a.byName) > 0 {
		return challenge{`Basic realm="txwork", charset="UTF-8"`}
	}
	return challenge{`Bearer realm="txwork"`}
}

// basic checks a password. An unknown name takes as long as a known one, so that the time does not tell which there
// are.
func (a *Accounts) basic(r *http.Request, name, text string) (User, error) {
	c := a.byName[name]
	digest := a.digest(name, text)
	if c != nil && c.remembers(digest) {
		return c.User, nil
	}
	from := addressOf(r)
	if wait := a.failed.wait(from, time.Now()); wait > 0 {
		return User{}, tooMany{wait}
	}
	select { // one at a time, so that nobody can use up the processors
	case a.derives <- struct{}{}:
		defer func() { <-a.derives }()
	case <-time.After(turn):
		return User{}, tooMany{turn}
	}
	if wait := a.failed.wait(from, time.Now()); wait > 0 { // requests before this one in the queue have failed
		return User{}, tooMany{wait}
	}
	against := a.nobody
	if c != nil {
		against = c.password
	}
	if !against.is(text) || c == nil {
		a.failed.add(from, time.Now())
		return User{}, a.challenge()
	}
	c.remember(digest)
	return c.User, nil
}

// digest is what is remembered of a password. Its key is random, so it is worth nothing outside the process.
func (a *Accounts) digest(name, text string) []byte {
	mac := hmac.New(sha256.New, a.secret)
	mac.Write([]byte(name + "\x00" + text))
	return mac.Sum(nil)
}

func (c *credentials) remembers(digest []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return subtle.ConstantTimeCompare(c.right, digest) == 1
}

func (c *credentials) remember(digest []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.right = digest
}
