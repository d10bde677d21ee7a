package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/txwork/txwork/webui"
)

// A fileAccount is an account in the accounts file.
type fileAccount struct {
	PasswordHash string   `json:"password_hash"`
	TokenHash    string   `json:"token_hash"`
	Role         string   `json:"role"`
	Tables       []string `json:"tables"`

	Queues map[string][]string `json:"queues"`
}

// accountsInterval is how old what is known of an accounts file may be.
const accountsInterval = time.Second

// An accountsFile has the accounts of those who may look. Those that it loses may not look any more.
type accountsFile struct {
	file   string
	logger *slog.Logger

	mu       sync.Mutex
	read     time.Time // when it was, the last time
	text     []byte
	problem  string // what was logged
	accounts *webui.Accounts
}

func openAccounts(file string, logger *slog.Logger) (*accountsFile, error) {
	f := &accountsFile{file: file, logger: logger}
	return f, f.reread()
}

// reread takes the accounts of the file if its text is another one.
func (f *accountsFile) reread() error {
	f.read = time.Now()
	text, err := os.ReadFile(f.file)
	if err != nil {
		return usagef("--accounts-file: %w", err)
	}
	if f.accounts != nil && bytes.Equal(text, f.text) {
		return nil
	}
	accounts, err := parseAccounts(f.file, text)
	if err == nil {
		if about, err := os.Stat(f.file); err == nil && about.Mode().Perm()&0o004 != 0 {
			f.logger.Warn("everybody on this machine can read the accounts file, and guess its passwords: run chmod o-r",
				"file", f.file)
		}
		f.text, f.accounts = text, accounts
	}
	return err
}

// current are the accounts of the file. If it cannot be used, as while it is being written, they stay.
func (f *accountsFile) current() *webui.Accounts {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.read) < accountsInterval {
		return f.accounts
	}
	problem := ""
	if err := f.reread(); err != nil {
		problem = err.Error()
	}
	if problem != "" && problem != f.problem {
		f.logger.Error("the accounts file cannot be used: accounts stay as they were", "error", problem)
	}
	f.problem = problem
	return f.accounts
}

func (f *accountsFile) authenticate(r *http.Request) (webui.User, error) {
	return f.current().Authenticate(r)
}

// parseAccounts reads an object with a member for each account.
func parseAccounts(file string, text []byte) (*webui.Accounts, error) {
	var members map[string]fileAccount
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&members); err != nil {
		return nil, usagef("--accounts-file %s: %w", file, err)
	}
	roles := map[string]webui.Role{"": webui.Viewer, "viewer": webui.Viewer, "operator": webui.Operator}
	var all []webui.Account
	for name, m := range members {
		role, ok := roles[m.Role]
		if !ok {
			return nil, usagef("--accounts-file %s: the role of %s is %q, it must be viewer or operator", file, name, m.Role)
		}
		all = append(all, webui.Account{User: webui.User{Name: name, Role: role, Tables: m.Tables,
			Queues: m.Queues},
			PasswordHash: m.PasswordHash, TokenHash: m.TokenHash})
	}
	accounts, err := webui.NewAccounts(all...)
	if err != nil {
		return nil, usagef("--accounts-file %s: %w", file, err)
	}
	return accounts, nil
}
