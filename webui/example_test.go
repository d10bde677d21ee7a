package webui_test

import (
	"log"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/webui"
)

// A dashboard below a path of a server, for one account with a password.
func ExampleNew() {
	var pool *pgxpool.Pool // of a role with the rights of a viewer
	accounts, err := webui.NewAccounts(webui.Account{
		User:         webui.User{Name: "ann", Role: webui.Operator},
		PasswordHash: "pbkdf2-sha256$600000$…", // printed by txwork serve --hash password
	})
	if err != nil {
		log.Fatal(err)
	}
	page, err := webui.New(webui.Config{Pool: pool, Authenticate: accounts.Authenticate})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/queues/", http.StripPrefix("/queues", page))
}
