#!/usr/bin/env bash
# run.sh TIME : runs every fuzz target for TIME, one after the other, and sums up.
set -euo pipefail
time=${1:-1m}
cd "$(dirname "$0")"
failed=0
targets() { go test -list '^Fuzz' "$1" | grep '^Fuzz' | sed "s|^|$1 |"; }
while read -r package target; do
  start=$(date +%s)
  if out=$(go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package" </dev/null 2>&1); then
    result=ok
  else
    result=FAILED
    failed=1
    printf '%s\n' "$out"
  fi
  execs=$(printf '%s\n' "$out" | grep -o 'execs: [0-9]*' | tail -n 1 || true)
  printf '%-24s %-6s %4ds  %s\n' "$target" "$result" "$(($(date +%s) - start))" "$execs"
done < <(targets . && targets ../gc)
exit $failed
