#!/usr/bin/env bash
# Runs the producers in several variants in turn, and then prints the medians. The first argument is the variants,
# separated by commas; each is a list of flags of the program. The other arguments are passed to the program with every
# variant. ROUNDS is how often each variant runs. SLOW_DISK_US is how many microseconds longer a flush of the disk
# takes, which needs a C compiler; without it the disk is not slowed down.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

IFS=, read -ra variants <<<"$1"
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work" # the server runs as another user
preload=
if [ -n "${SLOW_DISK_US:-}" ]; then
  cc -O2 -shared -fPIC -o "$work/slowdisk.so" slowdisk/slowdisk.c -ldl
  preload=$work/slowdisk.so
fi
go build -o "$work/producers" .
for ((round = 0; round < ${ROUNDS:-3}; round++)); do
  for variant in "${variants[@]}"; do
    # shellcheck disable=SC2086 # a variant is several words
    LD_PRELOAD=$preload "$work/producers" $variant "$@"
  done
done | tee "$work/lines"

# median prints the median of the numbers before or after a word, in the lines of one variant.
median() {
  awk -v variant="$1" -v word="$2" -v step="$3" \
    '$1 == variant { for (i = 2; i <= NF; i++) if ($i == word) print $(i + step) }' "$work/lines" | sort -n |
    awk '{ v[NR] = $1 } END { if (NR) print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

first=
for variant in $(awk '!seen[$1]++ { print $1 }' "$work/lines"); do
  rate=$(median "$variant" transactions -1)
  first=${first:-$rate}
  awk -v variant="$variant" -v rate="$rate" -v first="$first" -v p50="$(median "$variant" p50 1)" -v p99="$(median "$variant" p99 1)" 'BEGIN {
    printf "median of %s: %d transactions a second, %.2f of the first one'"'"'s, %.0f µs a transaction more", variant, rate, rate / first, 1e6 / rate - 1e6 / first
    if (p50) printf ", done after p50 %s ms, p99 %s ms", p50, p99
    print ""
  }'
done
