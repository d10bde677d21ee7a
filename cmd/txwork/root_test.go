package main

import (
	"net/url"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestWrongUsageExits2AndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	const id = "018f0000-0000-7000-8000-000000000000"
	tests := []struct {
		args string
		want string
	}{
		{"bogus", `unknown command "bogus"`},
		{"outbox sent", `did you mean send?`},
		{"outbox bogus", `unknown command "bogus" for "txwork outbox"`},
		{"stats --bogus", "unknown flag: --bogus"},
		{"stats", "pass --database-url postgres://user@host/name or set TXWORK_DATABASE_URL"},
		{"stats --database-url postgres://x:y:z", "the database URL is wrong"},
		{"stats --database-url postgres://h/db?pool_max_conns=x",
			"the database URL is wrong: cannot parse pool_max_conns"},
		{"stats --schema Bad", `schema "Bad" must match`},
		{"stats a b", "accepts at most 1 arg"},
		{"list outbox", "--status is missing: "},
		{"list outbox --status late",
			"want one of ready, scheduled, waiting, in_progress, expired, done, failed, cancelled"},
		{"list outbox --status done --limit 0", "--limit is 0"},
		{"show outbox 17", `"17" is no id`},
		{"show outbox", "accepts 2 arg(s)"},
		{"redrive outbox", "either their ids, or --all-failed or a filter"},
		{"redrive outbox --all-failed " + id, "either their ids, or --all-failed or a filter"},
		{"redrive outbox --topic t " + id, "either their ids, or --all-failed or a filter"},
		{"redrive outbox --limit 3 " + id, "--limit, --dry-run and --exact go with --all-failed"},
		{"redrive outbox --dry-run " + id, "--limit, --dry-run and --exact go with --all-failed"},
		{"redrive outbox --all-failed --limit -1", "--limit is -1"},
		{"redrive outbox --older-than 2d --newer-than 1h", "no row is older than 48h0m0s and newer than 1h0m0s"},
		{"cancel outbox", "either their ids, or --all-live or a filter"},
		{"cancel outbox --all-live --status done", `--status "done" cannot be cancelled`},
		{"run-now outbox", "either their ids, or --all-scheduled or a filter"},
		{"reschedule outbox --all-ready", "at least one of the flags in the group [at in] is required"},
		{"reschedule outbox --all-ready --at tomorrow", "want a time with its zone"},
		{"discard outbox", "either their ids, or --all-failed or a filter"},
		{"delete outbox --all-ended --status ready", `--status "ready" cannot be deleted, want one of done, failed`},
		{"reap --limit 0", "--limit is 0"},
		{"purge outbox --yes", "done-older-than"},
		{"purge outbox --done-older-than 1x --yes", "want a length of time such as 90d or 36h"},
		{"purge outbox --done-older-than -1h --yes", "want a length of time such as 90d or 36h"},
		{"migrate sql --schema 1x", "must match"},
		{"outbox send", "--topic is missing: "},
		{"outbox send --topic= x", "it must have 1 to 255"},
		{"outbox send --topic t --batch 0", "--batch is 0"},
		{"outbox send --topic t --max-payload 0", "--max-payload is 0"},
		{"outbox send --topic t --per-key", "--per-key orders messages by their keys"},
		{"outbox send --topic t --key-field k --on-failure park", "--on-failure needs --per-key"},
		{"outbox send --topic t --key-field k --per-key --on-failure drop", "want one of block, park, skip"},
		{"outbox unblock", "requires at least 1 arg(s)"},
		{"outbox unblock 17", `"17" is no id`},
		{"timers set k --topic t", "[at in]"},
		{"timers set k --in 1h", "--topic is missing: "},
		{"timers set k --topic t --in 1h --at 2027-01-01T00:00:00Z", "[at in] were all set"},
		{"timers set k --topic t --at tomorrow", "want a time with its zone"},
		{"timers set k --topic t --at 2027-01-01T00:00:00", "want a time with its zone"},
		{"timers set k --topic t --in -1h", "want a length of time such as"},
		{"timers set k --topic= --in 1h", "it must have 1 to 255"},
		{"timers set k --topic t --in 1h --max-attempts 0", "--max-attempts is 0"},
		{"timers set k --topic t --in 1h --payload a --payload-file b", "[payload payload-file]"},
		{"timers cancel", "requires at least 1 arg(s)"},
		{"timers list --limit 10001", "--limit is 10001, it must be between 1 and 10000"},
		{"timers list --limit x", `txwork: --limit is "x", it must be a whole number`},
		{"timers list --limit 99999999999999999999", "which is more than it can be"},
		{"jobs limit mail --rate 1e400", "which is more than it can be"},
		{"jobs limit mail --rate x", `txwork: --rate is "x", it must be a number such as`},
		{"top --every x", `txwork: --every is "x", it must be a length of time such as`},
		{"schedules next @daily -n x", `txwork: --count is "x", it must be a whole number`},
		{"stats --json=x", `txwork: --json is "x", it must be true or false`},
		{"timers list --status late", `--status "late" is unknown`},
		{"subscriptions list billing", `"billing" is one argument too many: txwork subscriptions list takes flags only`},
		{"subscriptions replay audit", "--start is missing: where it goes on: beginning, now, an age"},
		{"schedules next", "accepts 1 arg(s)"},
		{"schedules next bogus", "bogus"},
		{"schedules next @daily --zone Mars/Olympus", "zone"},
		{"schedules next @daily -n 0", "--count is 0"},
		{"schedules next @daily --from yesterday", "want a time with its zone"},
		{"schedules put s @daily", "--topic is missing: "},
		{"schedules put s bogus --topic t", "bogus"},
		{"schedules put s @daily --topic t --zone Local", "zone"},
		{"schedules put s @daily --topic t --misfire never", `--misfire "never" is unknown`},
		{"schedules put s @daily --topic t --overlap never", `--overlap "never" is unknown`},
		{"schedules put s @daily --topic t --cap -1", "cap is -1"},
		{"schedules list --limit 0", "--limit is 0"},
		{"schedules list --status late", `--status "late" is unknown`},
		{"schedules pause s --of outbox", `--of "outbox" is unknown`},
		{"schedules pause", "accepts 1 arg(s)"},
		{"schedules backfill s", "--from is missing: the earliest time, as RFC 3339 has it\n--to is missing: "},
		{"schedules backfill s --from 2027-01-01T00:00:00Z", "--to is missing: "},
		{"schedules backfill s --from 2027-01-02T00:00:00Z --to 2027-01-01T00:00:00Z", "is before --from"},
		{"schedules pausse s", "did you mean pause?"},
		{"jobs show 17", `"17" is no id`},
		{"jobs cancel", "either their ids, or --all-live or a filter"},
		{"jobs redrive", "either their ids, or --all-failed or a filter"},
		{"jobs list --status late", `--status "late" is unknown`},
		{"jobs list --after 17", `--after "17" is no id`},
		{"jobs list --limit 0", "--limit is 0"},
		{"jobs limit mail", "[max-running rate]"},
		{"jobs pause", "accepts 1 arg(s)"},
		{"outbox pause", "accepts 1 arg(s)"},
		{"inbox resume c", "accepts 2 arg(s)"},
		{"outbox relay", "either --stdout or --exec COMMAND"},
		{"outbox relay --stdout --exec cat", "either --stdout or --exec COMMAND"},
		{"outbox relay --stdout --lease 10ms", "--lease is 10ms, it must be between 1s and 24h0m0s"},
		{"outbox relay --stdout --concurrency -1", "--concurrency is -1"},
		{"outbox relay --stdout --timeout -1s", "--timeout is for --exec"},
		{"outbox relay --stdout --timeout 1s", "--timeout is for --exec"},
		{"table new", "accepts 1 arg(s)"},
		{"table new Bad", `table "Bad" must match`},
		{"table new t --column a", "it must be one of"},
		{"table new t --column a:text:nullable", "want NAME:TYPE"},
		{"table new t --column a:text:min=x", "want NAME:TYPE"},
		{"table new t --column a:uuid:min=1", "only texts, bytea and whole numbers may have one"},
		{"table new t --column a:money", `has type "money"`},
		{"table new t --column a:text --lane a", "must be NotNull"},
		{"table new t --lane a", "none of the columns"},
		{"table new t --max-attempts 0", "at least one attempt"},
	}
	for _, test := range tests {
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			r := execute(t, t.Context(), strings.NewReader(""), nil, strings.Fields(test.args)...)
			r.exits(exitUsage).says("txwork: ", test.want, "--help' for usage.")
			if r.stdout != "" {
				t.Errorf("stdout is %q, want nothing", r.stdout)
			}
		})
	}
}

func TestDatabaseThatIsNotThere(t *testing.T) {
	t.Parallel()
	env := map[string]string{databaseURLEnv: "postgres://u:secret@127.0.0.1:1/none?connect_timeout=1"}
	r := execute(t, t.Context(), strings.NewReader(""), env, "stats")
	r.exits(exitFailure).says("txwork: the database cannot be reached: check the URL")
	if strings.Contains(r.stderr, "secret") {
		t.Errorf("the password is shown: %s", r.stderr)
	}
}

// A server that answers is not reported as unreachable.
func TestServerThatRefuses(t *testing.T) {
	c := newMigratedCLI(t)
	for change, want := range map[string]string{
		"dbname=none_such": "txwork: the server has no such database: check its name in the URL",
		"user=none_such":   "txwork: the server refuses the role: check its name and password",
	} {
		name, value, _ := strings.Cut(change, "=")
		server, err := url.Parse(c.url)
		must(t, err)
		query := server.Query()
		query.Set(name, value)
		server.RawQuery = query.Encode()
		r := execute(t, t.Context(), strings.NewReader(""), map[string]string{databaseURLEnv: server.String()},
			"doctor")
		r.exits(exitFailure).says(want, "none_such")
	}
}

func TestEnvironmentNamesTheDatabase(t *testing.T) {
	c := newMigratedCLI(t)
	env := map[string]string{databaseURLEnv: c.url}
	execute(t, t.Context(), strings.NewReader(""), env, "stats", "--schema", c.db.Schema).ok().prints(c.db.Schema +
		".outbox")
}

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	execute(t, t.Context(), nil, nil, "--version").ok().prints("txwork ", "core 1")
	execute(t, t.Context(), nil, nil).ok().prints("Available Commands")
	execute(t, t.Context(), nil, nil, "outbox").ok().prints("send", "relay")
}

// Every command that reads the database has --json. The exceptions print SQL, metrics for Prometheus, or nothing.
func TestCommandsThatReadHaveJSON(t *testing.T) {
	t.Parallel()
	exceptions := map[string]bool{"txwork migrate sql": true, "txwork table new": true, "txwork demo worker": true,
		"txwork bench work": true, "txwork roles": true, "txwork metrics serve": true, "txwork serve": true,
		"txwork migrate export": true}
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		leaf := !cmd.HasSubCommands() || cmd.Name() == "demo"
		if leaf && cmd.Flags().Lookup("json") == nil && !exceptions[cmd.CommandPath()] {
			t.Errorf("%s has no --json", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(newRootCommand(&app{}))
}

func TestJSONOfAFailure(t *testing.T) {
	t.Parallel()
	env := map[string]string{databaseURLEnv: "postgres://u:secret@127.0.0.1:1/none?connect_timeout=1"}
	r := execute(t, t.Context(), strings.NewReader(""), env, "stats",
		"--json").exits(exitFailure).says("cannot be reached")
	if f := decode[failure](r); !strings.Contains(f.Error, "cannot be reached") || f.ExitCode != exitFailure {
		t.Errorf("printed %+v", f)
	}
	r = execute(t, t.Context(), strings.NewReader(""), env, "redrive", "outbox", "--all-failed",
		"--json").exits(exitUsage)
	if f := decode[failure](r); f.ExitCode != exitUsage {
		t.Errorf("printed %+v", f)
	}
}
