#!/usr/bin/env bash
# build.sh DIR [SET...] : makes the benchmark workspaces below DIR, each once.
#
#   ws-node   57,000 files, 0.75 GB: a JavaScript project with its dependencies and git history
#   ws-src    79,000 files, 1.3 GB: the sources of Linux 6.1
#   ws-big    6 files, 2.2 GB: archives, a database, random bytes, a log
#   small     11,000 files, 0.2 GB: the sources and tools of the Go toolchain, without network
#
# Needs Go and, except for small, npm, git, python3 and a Debian machine. The
# same lock file gives the same dependencies for ever.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:?usage: build.sh DIR [SET...]}"
dir=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- ws-node ws-src ws-big

small() {
  mkdir -p "$dir/small/big"
  cp -a "$(go env GOROOT)/src" "$dir/small/"
  cat "$(go env GOROOT)"/pkg/tool/*/* > "$dir/small/big/tools.bin"
}

linux_source() {
  ls "$dir"/.downloads/linux-source-6.1_*.deb >/dev/null 2>&1 && return
  mkdir -p "$dir/.downloads"
  (cd "$dir/.downloads" && apt-get update -qq && apt-get download linux-source-6.1 >/dev/null)
}

ws_node() {
  mkdir -p "$dir/ws-node"
  cd "$dir/ws-node"
  cp "$here/ws-node-package.json" package.json
  cp "$here/ws-node-lock.json" package-lock.json
  npm install --ignore-scripts --no-audit --no-fund --legacy-peer-deps --omit-lockfile-registry-resolved >/dev/null
  python3 - <<'PY'
import os, random
r = random.Random(1)
words = [f"word{i}" for i in range(800)]
for d in range(20):
    os.makedirs(f"src/feature{d}", exist_ok=True)
    for f in range(12):
        with open(f"src/feature{d}/mod{f}.tsx", "w") as out:
            for line in range(r.randint(20, 300)):
                out.write("export const v%d = (%s: number) => %s(%s);\n" % (line, *r.choices(words, k=3)))
PY
  printf 'node_modules/\n' > .gitignore
  export GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'
  local git=(git -c user.name=bench -c user.email=bench@example.invalid -c gc.auto=0)
  git init -q -b main
  git add -A
  "${git[@]}" commit -q -m init
  for i in $(seq 1 30); do
    echo "// rev $i" >> "src/feature$((i % 20))/mod$((i % 12)).tsx"
    git add -A
    "${git[@]}" commit -q -m "rev $i"
  done
}

ws_src() {
  linux_source
  mkdir -p "$dir/ws-src"
  local unpacked
  unpacked=$(mktemp -d)
  dpkg -x "$dir"/.downloads/linux-source-6.1_*.deb "$unpacked"
  tar -C "$dir/ws-src" -xf "$unpacked/usr/src/linux-source-6.1.tar.xz"
  rm -rf "$unpacked"
}

ws_big() {
  linux_source
  mkdir -p "$dir/ws-big"
  cd "$dir/ws-big"
  local tar=(tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner)
  "${tar[@]}" -cf go-toolchain.tar -C "$(go env GOROOT)" .
  # shellcheck disable=SC2046
  "${tar[@]}" -cf usr-lib.tar --ignore-failed-read -C /usr/lib $(cd /usr/lib && ls -d llvm-14 gcc x86_64-linux-gnu/libLLVM-1*.so.1 2>/dev/null)
  cat "$dir"/.downloads/linux-source-6.1_*.deb > debs.bin
  python3 "$here/ws-big.py"
}

for set in "$@"; do
  stamp="$dir/.$set.done"
  [ -f "$stamp" ] && continue
  rm -rf "${dir:?}/$set"
  case $set in
    small) (small) ;;
    ws-node) (ws_node) ;;
    ws-src) (ws_src) ;;
    ws-big) (ws_big) ;;
    *) echo "build.sh: unknown set $set" >&2; exit 2 ;;
  esac
  touch "$stamp"
  echo "$set: $(find "$dir/$set" -type f | wc -l) files, $(du -sb --apparent-size "$dir/$set" | cut -f1) bytes"
done
