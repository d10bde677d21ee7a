.PHONY: ci test test-proof lint docs-check bench bench-peers bench-target bench-check demo prove liveness torture torture-long model mutants fuzz test-versions

# The whole gate, as CI runs it.
ci:
	bash .ci/run

test:
	go test ./...

# Tests that take longer, each small: what `prove`, `liveness` and others below run at full size.
test-proof:
	cd proof && go test ./...

lint:
	gofmt -l .
	go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

# What the documentation says, as far as a machine can tell; see .ci/docs.
docs-check:
	.ci/docs

# The core's own figures; see docs/performance.md.
bench:
	go test -run '^$$' -bench . -benchtime 3x ./workqueue

# txwork beside its peers: hours with all of them. FLAGS are those of bench/README.md, such as "--resume" or
# "--peers txwork,river:bench --rounds 1".
bench-peers:
	go run ./bench $(FLAGS)

# One row of the targets in docs/performance.md, such as NAME=idle. FLAGS such as "--rounds 1 --peers txwork".
bench-target:
	go run ./bench target $(NAME) $(FLAGS)

# The working tree beside the merge base, or beside BASE=commit; some minutes. CHECK=--short takes about one. It judges
# no time.
bench-check:
	go run ./internal/bench/check $(if $(BASE),--base $(BASE)) $(CHECK)

demo:
	go run ./cmd/txwork demo

# What the domains promise under kills, at full size: some minutes.
prove:
	go test ./proof/kills -v -full -timeout 40m

# Holders of locks beside bystanders, at full size, on a quiet machine: an hour and a half. Writes docs/reliability.md.
HOLD ?= 30s
liveness:
	go test ./proof/liveness -v -full -measured $(HOLD) -timeout 4h

# All domains under faults, a minute; FLAGS are those of `go run ./proof torture`, such as "--seed 7 --faults clock,failover".
torture:
	go run ./proof torture $(FLAGS)

# The same at full size, three hours with one run at a time: ten seeds of ten minutes, the builds that are broken on
# purpose, and a million rows over crashes of PostgreSQL. It goes on where it was stopped, and writes
# docs/reliability.md. FLAGS such as "--install --parallel 2"; see proof/series.
torture-long:
	go run ./proof series $(FLAGS)

# The protocols of claims and of ordered keys, in every interleaving; see docs/model.
model:
	.ci/model

# Each guard of the SQL and each fence of the Go code taken out in turn: every one has to be noticed. Prints who noticed
# what; fails with survivors. FLAGS are those of proof/mutation, such as "--resume FILE" or "--only jobs/".
mutants:
	go run ./proof mutants $(FLAGS)

# Every fuzz target, FUZZTIME each. ONLY is a pattern of their names.
FUZZTIME ?= 1m
fuzz:
	FUZZTIME=$(FUZZTIME) ONLY=$(ONLY) .ci/fuzz

# The tests on every PostgreSQL, in every mode of pgx, through PgBouncer and with every Go; see docs/testing.md. Hours at
# full size. SHORT=1 runs only the conformance suites, ONLY="postgresql-17 pgx-exec" only these environments.
test-versions:
	.ci/versions $(if $(SHORT),--short) $(ONLY)
