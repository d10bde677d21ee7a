#!/usr/bin/env bash
# Producers beside a relay on a disk that takes a millisecond longer to flush, with the trigger off, always notifying, and
# with the announcer. Wants a C compiler. Arguments go to the program, such as -rate 20.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work" # the server runs as another user
cc -O2 -shared -fPIC -o "$work/slowdisk.so" slowdisk/slowdisk.c -ldl
go build -o "$work/producers" .
for round in 1 2 3; do
  for trigger in off always announcer; do
    LD_PRELOAD=$work/slowdisk.so "$work/producers" -trigger "$trigger" "$@"
  done
done
