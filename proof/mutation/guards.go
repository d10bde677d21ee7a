package mutation

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A source is an SQL file whose guards are removed one by one, with the suites that should notice.
type source struct {
	file   string
	suites []suite
	except *regexp.Regexp // parts that are not guards in this file
}

// goldens are tests that compare the text of statements: they would notice every change and prove nothing. Plans must
// not kill mutants either.
const goldens = "Golden|^TestPlans$|TestEveryFileIsAStatement"

// core is the contract of a table: first the topics that a file is about through one way in, and then everything.
func core(topics string) []suite {
	return []suite{
		{dir: "workqueue", run: "Conform/^pool$/^(" + topics + ")$"},
		{dir: "workqueue", run: "Conform/^(pool|functions|session)$"},
		{dir: "internal/model"},
		{dir: "workqueue", skip: goldens + "|Conform"},
	}
}

// topical notices what goes wrong with topics. Those of the inbox are topics of consumers.
var topical = []suite{
	{dir: "outbox", run: "Topic|Pause|Aside|Hang|Away|Probe"}, {dir: "inbox", run: "Topic|Pause"},
	{dir: "outbox", skip: goldens}, {dir: "inbox", skip: goldens},
}

// columnCheck matches checks of what a domain stores. They do not decide about any transition.
const columnCheck = `^\(?rearm_at IS NULL OR `

// beside runs the selected tests of a package first, and then all but the core's contract, which the core's own tests
// run anyway.
func beside(dir, run string) []suite {
	return []suite{{dir: dir, run: run}, {dir: dir, skip: "Conform"}}
}

// sources are the files with transitions, and with what decides about them. Files that only read are left out.
var sources = listSources(
	in("workqueue/sql", slices.Concat(core("claim|waiting"), topical), "candidates", "claim"),
	in("workqueue/sql", topical, "topics"),
	in("workqueue/sql", slices.Concat(test("workqueue", "TestFetch"), topical), "fetch", "sort_out"),
	in("workqueue/sql", core("settle|waiting"), "abandon", "ack", "ack_delete", "ack_delete_one", "ack_one", "fail",
		"put_back"),
	in("workqueue/sql", core("lease|waiting"), "extend", "reap_expired"),
	in("workqueue/sql", core("operator|waiting"), "cancel", "redrive", "reschedule", "discard", "delete"),
	in("workqueue/sql", beside("workqueue/keyed", "TestSkipping"), "unblock"),
	in("workqueue/sql", beside("jobs", "Redriven|DeadLetter"), "may_retake"),
	in("workqueue/sql", core("table|insert|waiting"), "next_wake", "purge_done", "purge_failed", "table"),
	in("workqueue/sql",
		test("workqueue", "TestNextDue|TestDueRows|TestRowThatBecomesDue|TestIdleWorker|Conform/^pool$/^waiting$"),
		"next_due"),
	in("workqueue/sql", test("workqueue", "TestLockedRow"), "unlocked"),
	// The choice of an index and the place where a sweep continues do not decide anything. The park has an edit
	// instead.
	but(`key_seq IS NOT NULL$|key_limit (= 0|> 0)$|concurrency_key > |^one$|^r\.key_seq > \( SELECT`,
		in("workqueue/keyed/sql", beside("workqueue/keyed",
			"TestNotes|TestSerial|TestLimited|TestRow|TestFailure|TestCancelled|TestOnlyRows|TestSweeps"), "keyed.up")),
	in("workqueue/join/sql", beside("workqueue/join", "TestAdd|TestCancel|TestStart|TestRelease"), "add",
		"lock_members", "mark", "new_members"),
	in("workqueue/join/sql", joining, "lock", "lock_join"),
	in("workqueue/join/sql/schema", beside("workqueue/join",
		"TestOtherRows|TestRedrive|TestEveryWay|TestReasons|TestUnneeded"), "apply", "end", "note"),
	in("workqueue/join/sql/schema", beside("workqueue/join",
		"TestNobodyWaits|TestWhatIsHeld|TestARefused|TestOneFolder|TestAFold"), "finish", "fold"),
	in("workqueue/join/sql/schema", beside("workqueue/join",
		"TestRepair|TestDeadline|TestRetention|TestAJoinIsKept|TestASweep|TestWhenTheSweep|TestADeleted|TestLost|TestTheSweep|"+
			"TestAMembership"), "purge", "recount", "strand", "sweep"),
	in("workqueue/periodic/sql", beside("workqueue/periodic", "Pause"), "pause"),
	in("workqueue/periodic/sql", beside("workqueue/periodic",
		"DuringTheDecision|TestAChangeWhileADead|TestAChangeBefore|TestAChangeOf"), "find", "lock", "try"),
	in("inbox/sql", beside("inbox", "TestTheKey|TestBegin|TestAReceive"), "begin"),
	in("inbox/sql", beside("inbox", "Strip|Locked|TestTheLife|TestDeadLetters|TestWhatIsNotDone"), "strip"),
	in("timers/sql", beside("timers", "TestCancel|DuringOneFiring"), "cancel"),
	in("timers/sql", setting, "set"),
	in("timers/sql", beside("timers", "Occurrences|Schedules"), "live"),
	// its triggers
	but(columnCheck, in("timers/sql", beside("timers", "Rearm|WhileItFires|DuringTheFiring|DuringOneFiring"), "table")),
	in("timers/alarms/sql", beside("timers/alarms", "Cancel|Begun|Stale|Settled|Delivered|Failures|Series|Redriven"), "begin", "cancel",
		"failed", "fired", "reschedule", "retry", "revoked", "skip"),
	in("timers/alarms/sql", beside("timers/alarms", "Owner|PostingAKey|Cancel"), "find", "get", "list"),
	in("timers/alarms/sql", beside("timers/alarms", "Repair"), "stranded"),
	in("jobs/sql", beside("jobs", "Overlap"), "live"),
	in("jobs/sql", beside("jobs", "TestRecords|TestSteps|TestAStep"), "output", "progress", "put_step"),
	in("jobs/sql", beside("jobs", "TestReplace|TestUnique|TestCalls"), "replace"),
	in("jobs/sql/schema", beside("jobs", "TestRetriesAndDeadLetters|TestWhatIsNoAttempt|TestADeletedJob|TestSteps"),
		"forget", "record"),
	in("jobs/sql/schema", admitting, "admit"),
	in("jobs/sql/schema", beside("jobs", "Slot|TestALimit|TestAPause|TestAnIdle"), "permit", "slot", "slot_sweep",
		"take"),
	in("jobs/sql/schema", beside("jobs", "Unique|Redriven|TestAKey"), "unique"),
	in("reaper/sql", beside("reaper", "TestElection|TestOneLeads|TestStop|TestStale|TestTerm|TestNames|TestFounding"),
		"verify", "withdraw"),
	in("reaper/sql", slices.Concat(beside("reaper", "TestElection|TestOneLeads|TestFounding"),
		[]suite{{dir: "internal/security", run: "TestATenantsReaper|TestATablesNamesake"}}), "elect"),
	in("migrations/sql", beside("reaper", "TestMaintenanceBy"), "002_reaper.up"),
)

func in(dir string, suites []suite, names ...string) (files []source) {
	for _, name := range names {
		files = append(files, source{file: dir + "/" + name + ".sql", suites: suites})
	}
	return files
}

func but(except string, files []source) []source {
	for i := range files {
		files[i].except = regexp.MustCompile(except)
	}
	return files
}

func listSources(groups ...[]source) (all []source) {
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}

// mutants returns one mutant for each guard of the source, and the guards that are left out as equivalent.
func (s source) mutants(root string) (list []mutant, left []equivalent, err error) {
	text, err := os.ReadFile(filepath.Join(root, s.file))
	if err != nil {
		return nil, nil, err
	}
	times := map[string]int{}
	for _, g := range findGuards(string(text)) {
		words := strings.Join(strings.Fields(g.text), " ")
		if s.except != nil && s.except.MatchString(words) {
			continue
		}
		times[words]++
		if n := times[words]; n > 1 {
			words = fmt.Sprintf("%s (%d)", words, n)
		}
		if e, ok := equivalentTo(s.file, words); ok {
			left = append(left, e)
			continue
		}
		list = append(list, newMutant("without "+words, s.file, text, g.offset, g.text, g.new, s.suites))
	}
	if len(list)+len(left) == 0 {
		return nil, nil, fmt.Errorf("%s: no guard found", s.file)
	}
	return list, left, nil
}

// An equivalent is a guard whose removal makes no observable difference, and the reason.
type equivalent struct {
	file   string
	guard  string // as --list prints it
	reason string
}

func equivalentTo(file, words string) (equivalent, bool) {
	for _, e := range equivalents {
		if e.file == file && e.guard == words {
			return e, true
		}
	}
	return equivalent{}, false
}
