//go:build unix

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// shipped are the folders whose messages users read. Remedies of the doctor's findings have tests of their own.
var shipped = []string{"cmd", "inbox", "internal/doctor", "internal/operate", "internal/postgres", "internal/sqltext",
	"jobs", "migrations", "outbox", "reaper", "schedule", "service", "timers", "webhook", "workqueue"}

// tellsToAct matches messages that name a command, or tell their reader to do something after a colon or the like.
var tellsToAct = regexp.MustCompile("['`(]txwork [a-z]|\\b(GRANT|ALTER|ROLLBACK) |HINT = '|" +
	`(?:^|[:;,] |\bor |\bthen )(call|check|choose|close|connect|create|grant|handle|leave|look|make|name|pass|raise|` +
	`register|roll back|run|see|set|start|try|upgrade|use|wait|write)\b`)

// Every message that gives an advice is in the table of those that are followed, or in the one that says why it is not.
func TestEachAdviceIsFollowed(t *testing.T) {
	t.Parallel()
	var known []string
	for _, a := range advices {
		known = append(known, a.says)
	}
	for _, fragments := range notFollowed {
		known = append(known, fragments...)
	}
	used := map[string]bool{}
	for at, text := range messages(t) {
		statement := strings.HasSuffix(text, ";") && !strings.Contains(text, "HINT")
		if statement || !tellsToAct.MatchString(text) {
			continue
		}
		found := false
		for _, k := range known {
			if shapeOf(k).MatchString(text) {
				used[k], found = true, true
			}
		}
		if !found {
			t.Errorf("%s: no test follows the advice %q", at, text)
		}
	}
	for _, k := range known {
		if !used[k] {
			t.Errorf("no message has %q", k)
		}
	}
}

// messages returns the literals of the source, joined as they are printed, by their place.
func messages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, dir := range shipped {
		must(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || d.IsDir():
			case strings.HasSuffix(path, "migrations/mend.go"): // DDL
			case strings.HasSuffix(path, ".sql"):
				err = readSQL(path, found)
			case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
				err = readGo(path, found)
			}
			return err
		}))
	}
	return found
}

// readSQL finds the hints of functions. The migrations are made of the same texts.
func readSQL(path string, found map[string]string) error {
	text, err := os.ReadFile(path)
	if strings.Contains(path, "migrations/sql") {
		return err
	}
	for n, line := range strings.Split(string(text), "\n") {
		if strings.Contains(line, "HINT") {
			found[fmt.Sprintf("%s:%d", path, n+1)] = line
		}
	}
	return err
}

func readGo(path string, found map[string]string) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, 0)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			return !saysWhatAnArgumentMustBe(n)
		case *ast.KeyValueExpr:
			return !slices.Contains([]string{"Do", "SQL", "Commands", "remedy"}, fmt.Sprint(n.Key))
		case *ast.BinaryExpr, *ast.BasicLit:
			if text := asPrinted(n.(ast.Expr)); strings.Contains(text, " ") {
				found[files.Position(n.Pos()).String()] = text
			}
			return false
		}
		return true
	})
	return nil
}

// saysWhatAnArgumentMustBe tells whether a call describes a flag or a command, or refuses a field of an option, which
// the tests of that option set right.
func saysWhatAnArgumentMustBe(call *ast.CallExpr) bool {
	name := ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name = fmt.Sprint(f.X, ".", f.Sel.Name)
	}
	return argument.MatchString(name)
}

var argument = regexp.MustCompile(`^(invalid|validate\.Errorf|new\w*Command|newGroup|\w*Flag|flags\.\w+|r\.report)$`)

// asPrinted returns the literals of an expression as one text on one line.
func asPrinted(e ast.Expr) string {
	var b strings.Builder
	ast.Inspect(e, func(n ast.Node) bool {
		if literal, is := n.(*ast.BasicLit); is && literal.Kind == token.STRING {
			text, _ := strconv.Unquote(literal.Value)
			b.WriteString(text + " ")
		}
		return true
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// notFollowed are parts of the messages that TestAdviceHelps does not follow, by the reason.
var notFollowed = map[string][]string{
	"its finding's remedy has a test of its own, TestPrintedCommandsMend or one in internal/doctor": {
		"Find out whether they get on", "with timers in its file", "with jobs in its file", "but it fails, see its log",
		"start a reaper", "Apply the migration, or name another --schema", "vacuum is held back, see horizon-held",
		"ROLLBACK PREPARED",
	},
	"another test follows it": {
		"Cancel fewer in one transaction, or raise max_locks_per_transaction",  // TestACancelOfTooManyKeysIsRefused
		"set pool_max_conns in the pool's URL, or its MaxConns",                // TestASmallPoolIsSaidAtTheStart
		"set HandlersWithoutPool in service.Options",                           // the same
		"migrate as %q, or GRANT %s TO %s",                                     // TestRefusedRoleIsToldWhatItLacks
		"run the scheduler as the owner of the tables",                         // TestATenantsSchedulerStartsNothing
		"run a dispatcher as the owner of the tables",                          // TestATenantsDispatcherRepairsNothing
		"run a reaper as the owner of the tables",                              // TestATenantsReaperIsNotElected
		"look as the owner of the tables",                                      // TestRowLevelSecurity
		"GRANT SELECT ON cron.job", "look as the role that scheduled the jobs", // TestJobsOfPgCronThatAreHidden
		"raise the timeout", "raise the statement timeout", // TestTheTimeoutOfAnExamination
		"Do it again when that has ended: nothing of it was done.",     // TestASwitchLetsWritersPass
		"COMMENT ON TABLE %s IS 'txwork core %d'",                      // TestATableWithoutItsComment
		"try again when that has ended, or with a longer lock timeout", // TestTableInUse
		"Run this SQL again when that has ended",                       // TestTheSQLOfTheRolesNamesTheTableThatIsInUse
		"set pool_mode = transaction or session",                       // TestWorkersRefuseAPoolerInStatementMode
		// TestATransactionWritesABoundedNumberOfOrderedKeys
		"write fewer keys in one transaction",
		"set ListenConfig to a connection to PostgreSQL itself", // TestAPoolerThatDeliversNoNotifications
		"run this with --domain",                                // TestExportSaysWhatItLacks
		"Open the outbox with Storage MoveToLog or Log",         // TestRowsAreRefusedAfterTheSwitch
		"Repeat the transaction.",                               // the same
		"Pause the subscription.",                               // TestTopicsAreNotPausedAfterTheSwitch
		"pass --replay-from",                                    // TestSubscriptions
		"The latest start is infinity",                          // the same
		"could move to the log",                                 // TestAMoveWithoutATableOfRows
		"Open the outbox with Storage MoveToLog or Rows",        // TestMessagesAreRefusedAfterTheWayBack
		"Pause the subscription, and call it again",             // TestTheWayBackWaitsForMessagesInHand
		"_take_over first, with the name of the subscription",   // TestAMoveGoesOn
		"has none of the domains",                               // TestASchemaWithoutDomains
		"guess its passwords: run chmod o-r",                    // TestServeAsksForAccounts
		"; or name the schema that has the tables",              // TestAForgottenSchema of txworktest
		"pass --tokens-file", "pass --secret-file", "pass --database-url", "leave out --fix",
	},
	"it is of the demo or the benchmark": {
		"choose between a number of transfers and an input file", "the demo freezes processes with SIGSTOP",
		"%s ended though nobody asked it to (%s): see its messages above", "dropped at its end, or by the next run",
		"this is a worker process of `txwork demo`",
	},
	"it is a statement, or a pattern of statements": {
		"(SELECT format(CASE c.relkind WHEN 'S' THEN 'ALTER SEQUENCE",
		"^(?i)(ADD |DROP CONSTRAINT |ENABLE |DISABLE |", "^(?i)ALTER TABLE (?:IF EXISTS )?", "^(?i)ALTER (?:COLUMN )?",
		"^(?i)(DROP (FUNCTION|PROCEDURE|ROUTINE|",
	},
	"it needs another server, program or file than a test has": {
		"connect to the primary", "connect to PostgreSQL directly", "upgrade the library", "upgrade it",
		"upgrade the %[6]s",
		"close some, or raise max_connections", "check its name in the URL, or create it", "check its name and password",
		"is starting, stopping or recovering: try again", "write that of a password as", "check the URL and that the server",
		"txwork roles after it", "or `txwork migrate up`", "name another by --zone",
	},
	"it tells to wait, or to look": {
		"start workers, or look when there are fewer", "look when fewer are open", "run it again", "wait: the last command still runs",
		"try again later", "roll back, and try again", "keep inserting and deleting timer", "failed, see below",
		"'txwork doctor' names these", "see 'txwork jobs queues'", "'txwork list' shows them",
	},
	"no program runs a log yet, see ADR 0079": {
		"{{.RebaseHint}}", "_tick() outside of transactions",
	},
	"TestASchemaWhoseOutboxIsALog and TestSendToALog follow it": {
		"pass --log", "name one of its subscriptions with --subscription",
	},
	"TestAWorkerMakesItsSubscription leaves topics out": {"is empty: leave it out for all topics"},
	"TestSubscriptions and the tests of outbox/internal/log do what it says": {
		"Subscribe first, or correct the name", "pass parked => true",
		"Change it, or choose another name",
	},
	"it tells the program's author what to write": {
		"call BatchTx once",
		"use POST", "set a retention that outlasts the wait", "to undo the writes, return an error", "make a new one",
		"call Tx once", "call Handle or HandleAll before Run",
		"register handlers before Run", "run what has to run at the start of a process", "name the zone",
		"leave out \"right/\"",
		// an argument of a function in SQL
		"must be end, start or start_in_turn", "Give one of them, or leave it out.", "Give one, or leave these out.",
		"Give the time, or call run_now.", "or use another on_conflict", "set them to a later time",
		"takes delay and error, if you like",
		// the columns of a direct INSERT or a restored key, and a trigger of the application
		"which takes unique_while and unique_until", "which makes the key of unique_key or unique_fields",
		"Restore the rows of a key with lower places", "it has to let claims pass",
		// how a worker in another language deals with a job that it has lost, and how it begins its transactions
		"another worker has the job, or it has ended", "another worker has such a row, or it has ended",
		"Set the isolation level of the transaction",
	},
	"it is no advice": {
		"leave cancel", "owner_token uuid, id uuid, name text", // names of outcomes and parameters
		"FROM pg_catalog", "set again", "which each have a transaction, wait for each other", "Connection: close", "or `txwork reap` or the table's procedure did", "`txwork migrate validate`",
	},
}
