.PHONY: ci test lint bench bench-peers bench-check demo prove model mutants fuzz test-versions

# The whole gate, as CI runs it.
ci:
	bash .ci/run

test:
	go test ./...

lint:
	gofmt -l .
	go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

# The core's own figures; see docs/performance.md.
bench:
	go test -run '^$$' -bench . -benchtime 3x ./workqueue

# txwork beside its peers: hours with all of them. FLAGS are those of bench/README.md, such as "--resume" or
# "--peers txwork,river:bench --rounds 1".
bench-peers:
	go run ./bench $(FLAGS)

# The working tree beside the merge base, or beside BASE=commit; some minutes. CHECK=--short takes about one. It judges
# no time.
bench-check:
	go run ./internal/bench/check $(if $(BASE),--base $(BASE)) $(CHECK)

demo:
	go run ./cmd/txwork demo

# What the domains promise under kills, at full size: some minutes.
prove:
	go test ./internal/proof -v -full -timeout 40m

# The claim protocol, in every interleaving; see docs/model.
model:
	.ci/model

# Each guard of the SQL and each fence of the Go code taken out in turn: every one has to be noticed.
mutants:
	go run ./internal/mutation

# Every fuzz target, FUZZTIME each and PARALLEL at once, and a table of what each came to. ONLY=FuzzCreate,schedule chooses.
# What they find is kept under testdata/fuzz of the package.
FUZZTIME ?= 1m
PARALLEL ?= 1
fuzz:
	go run ./internal/fuzzing --time $(FUZZTIME) --parallel $(PARALLEL) $(if $(ONLY),--only $(ONLY))

# The tests on every PostgreSQL, in every mode of pgx, through PgBouncer and with every Go; see docs/testing.md. Hours at
# full size. SHORT=1 runs the conformance suites alone, ONLY=17,Go chooses among the environments.
test-versions:
	go run ./internal/versions $(if $(SHORT),--short) $(if $(ONLY),--only "$(ONLY)")
