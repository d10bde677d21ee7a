.PHONY: ci test lint bench demo prove model mutants fuzz

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

demo:
	go run ./cmd/txwork demo

# What the domains promise under kills, at full size: some minutes.
prove:
	go test ./internal/proof -v -full -timeout 40m

# The claim protocol, in every interleaving; see docs/model.
model:
	.ci/model
