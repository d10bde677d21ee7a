.PHONY: ci test test-full test-proof test-browser pictures lint docs-check bench bench-peers bench-target bench-check demo prove liveness torture torture-long model mutants fuzz test-versions

# The whole gate, as CI runs it.
ci:
	bash .ci/run

test:
	go test ./... ./cmd/txwork/...

# The same at full size, before a release and each week.
test-full:
	TXWORK_TEST_FULL=1 go test -timeout 30m ./... ./cmd/txwork/...

# Tests that take longer, at a small size. `prove`, `liveness` and others below run them at full size.
test-proof:
	cd proof && go test ./...

# Opens the dashboard in Chromium, which .ci/browser installs with axe-core.
test-browser:
	.ci/browser

# Makes the pictures in docs/pictures.
pictures:
	go run ./proof pictures

lint:
	gofmt -l .
	go vet work
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./... ./cmd/txwork/...

# Checks the documentation as far as a machine can, see .ci/docs.
docs-check:
	.ci/docs

# What a job costs on this machine, see docs/performance.md.
bench:
	go run ./cmd/txwork bench drain --jobs 200000
	go run ./cmd/txwork bench enqueue --jobs 200000
	go run ./cmd/txwork bench latency

# Compares txwork with its peers; all of them take hours. FLAGS are those of bench/README.md, such as "--resume" or
# "--peers txwork,river:bench --rounds 1".
bench-peers:
	go run ./bench $(FLAGS)

# Measures one row of the targets in docs/performance.md, such as NAME=idle. FLAGS such as "--rounds 1 --peers txwork".
bench-target:
	go run ./bench target $(NAME) $(FLAGS)

# Compares the working tree with the merge base, or with BASE=commit; takes some minutes, with CHECK=--short about one. It
# does not judge times.
bench-check:
	go run ./bench check $(if $(BASE),--base $(BASE)) $(CHECK)

demo:
	go run ./cmd/txwork demo

# Tests what the domains promise under kills, at full size: some minutes.
prove:
	go test ./proof/kills -v -full -timeout 40m

# Tests bystanders beside holders of locks, at full size, on a quiet machine: an hour and a half. Writes
# docs/reliability.md.
HOLD ?= 30s
liveness:
	go test ./proof/liveness -v -full -measured $(HOLD) -timeout 4h

# Runs all domains under faults for a minute. FLAGS are those of `go run ./proof torture`, such as "--seed 7 --faults clock,failover".
torture:
	go run ./proof torture $(FLAGS)

# The same at full size, three hours with one run at a time: ten seeds of ten minutes, the deliberately broken builds, and
# a million rows with crashes of PostgreSQL. It resumes where it was stopped, and writes docs/reliability.md. FLAGS such
# as "--install --parallel 2", see proof/series.
torture-long:
	go run ./proof series $(FLAGS)

# Checks the protocols of claims, of ordered keys and of announcers in every interleaving, see docs/model.
model:
	.ci/model

# Removes each guard of the SQL and of the Go code in turn: a test has to notice every one. Prints which test noticed which,
# and fails if mutants survive. FLAGS are those of proof/mutation, such as "--resume FILE" or "--only jobs/".
mutants:
	go run ./proof mutants $(FLAGS)

# Runs every fuzz target for FUZZTIME. ONLY is a pattern of their names.
FUZZTIME ?= 1m
fuzz:
	FUZZTIME=$(FUZZTIME) ONLY=$(ONLY) .ci/fuzz

# Runs the tests on every PostgreSQL, in every mode of pgx, through PgBouncer and with every Go, see docs/testing.md. It
# takes hours. SHORT=1 runs only the conformance suites, ONLY="postgresql-17 pgx-exec" only these environments.
test-versions:
	.ci/versions $(if $(SHORT),--short) $(ONLY)
