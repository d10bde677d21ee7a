.PHONY: ci test lint bench bench-peers bench-check demo prove model mutants fuzz

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

# Each guard of the SQL and each fence of the Go code taken out in turn: every one has to be noticed. Prints who noticed
# what; fails with survivors. FLAGS are those of internal/mutation/main.go, such as "--resume FILE" or "--only jobs/".
mutants:
	go run ./internal/mutation $(FLAGS)

# Every fuzz target in turn, FUZZTIME each. What they find is kept under testdata/fuzz of the package. To make an
# input smaller is bounded: where a database answers, the coverage differs from run to run, and it would take a minute.
FUZZTIME ?= 1m
fuzz:
	@set -e; grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u | while read -r dir; do \
		for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' $$dir/*_test.go); do \
			echo "== $$dir $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x $$dir; \
		done; \
	done
