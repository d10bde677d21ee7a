package clients

import "context"

// A language knows how to run a file. Its command is nil if the driver is missing. Its handler is the statement with
// which the handlers of the pages print a row, and pause one that makes a handler slow. Its beats begin with its name.
type language struct {
	command        func(context.Context) []string
	name, install  string
	handler, pause string
}

// languages are those whose programs run here, by the name of their blocks. The other pages say that they were not run.
var languages = map[string]language{
	"python": {
		Python, "python", "apt-get install python3-psycopg",
		"print(topic, payload.decode(), flush=True)", "time.sleep(0.03)",
	},
	"js": {
		Node, "node", "npm install --prefix \"$HOME/.cache/txwork/node\" pg, with Node from apt-get install nodejs",
		"console.log(kind, args.toString())", "await new Promise((resolve) => setTimeout(resolve, 500))",
	},
	"bash": {
		Bash, "bash", "apt-get install postgresql-client",
		`printf '%s %s\n' "$1" "$2"`, "sleep 0.2",
	},
}
