#!/usr/bin/env bash
# Producers beside a relay on a disk that takes a millisecond longer to flush, with the trigger off, always notifying, and
# with the announcer, in turns, and then the medians. Wants a C compiler. Arguments go to the program, such as -rate 20;
# ROUNDS is how often, SLOW_DISK_US how many microseconds a flush takes longer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work" # the server runs as another user
cc -O2 -shared -fPIC -o "$work/slowdisk.so" slowdisk/slowdisk.c -ldl
go build -o "$work/producers" .
for ((round = 0; round < ${ROUNDS:-3}; round++)); do
  for trigger in off always announcer; do
    LD_PRELOAD=$work/slowdisk.so "$work/producers" -trigger "$trigger" "$@"
  done
done | tee "$work/lines"

# The median of a column, of the lines of one trigger.
median() {
  awk -v trigger="$1" -v name="$2" '$1 == trigger { for (i = 1; i < NF; i++) if ($i == name) print $(i + 1) }' "$work/lines" | sort -n |
    awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

rate() {
  awk -v trigger="$1" '$1 == trigger { print $4 }' "$work/lines" | sort -n | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

off=$(rate off)
for trigger in off always announcer; do
  echo "median of $trigger: $(rate $trigger) transactions a second, $(awk "BEGIN { printf \"%.2f\", $(rate $trigger) / $off }") of the rate without trigger," \
    "done after p50 $(median $trigger p50) ms, p99 $(median $trigger p99) ms"
done
