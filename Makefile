.PHONY: ci test lint bench bench-peers bench-check demo prove

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
