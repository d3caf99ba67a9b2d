#!/usr/bin/env bash
# quickstart.sh SNAPCTL : saves a workspace of real files with the defaults,
# destroys it, restores it, and proves the copy identical.
set -euo pipefail
snapctl=$(realpath "${1:?usage: quickstart.sh SNAPCTL}")

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export XDG_DATA_HOME=$dir/data XDG_CONFIG_HOME=$dir/config XDG_CACHE_HOME=$dir/cache

# listing prints what stat(2) says of everything; the size of a directory is the
# filesystem's own business.
listing() {
  find . -type d -printf '%p %y %m %U %G %T@ %n\n' -o -printf '%p %y %m %U %G %s %T@ %l %n\n' | sort
}
say() { printf '\n== %s\n' "$*"; }

say "a workspace: the sources of the Go toolchain, a symlink, a hard link, a sparse file"
mkdir "$dir/workspace"
cp -a "$(go env GOROOT)/src" "$dir/workspace/"
ln -s src/go.mod "$dir/workspace/link"
ln "$dir/workspace/src/go.mod" "$dir/workspace/hard"
truncate -s 64M "$dir/workspace/sparse"
printf 'odd name' > "$dir/workspace/$(printf 'not utf-8 \xff')"
(cd "$dir/workspace" && listing > "$dir/before")
find "$dir/workspace" -type f -print0 | sort -z | xargs -0 sha256sum | sed "s|$dir/workspace||" > "$dir/sums-before"
printf '%s entries, %s on disk\n' "$(wc -l < "$dir/before")" "$(du -sh "$dir/workspace" | cut -f1)"

say "snapctl init"
"$snapctl" init
say "snapctl snapshot"
"$snapctl" snapshot "$dir/workspace" --source quickstart
say "snapctl snapshot, again: nothing changed"
"$snapctl" snapshot "$dir/workspace" --source quickstart
say "the workspace is destroyed"
rm -rf "$dir/workspace"
say "snapctl restore latest"
"$snapctl" restore latest "$dir/workspace"

say "compare names, types, modes, owners, sizes, times, links; then every byte"
(cd "$dir/workspace" && listing > "$dir/after")
find "$dir/workspace" -type f -print0 | sort -z | xargs -0 sha256sum | sed "s|$dir/workspace||" > "$dir/sums-after"
diff -a "$dir/before" "$dir/after"
diff -a "$dir/sums-before" "$dir/sums-after"
first=$("$snapctl" show latest --json | tr -d ' \n' | sed 's/.*"root":"\([0-9a-f]*\)".*/\1/')
"$snapctl" snapshot "$dir/workspace" --source restored >/dev/null
second=$("$snapctl" show latest --json | tr -d ' \n' | sed 's/.*"root":"\([0-9a-f]*\)".*/\1/')
[ -n "$first" ] && [ "$first" = "$second" ]
echo "identical; a snapshot of the restored copy has the same root:"
echo "$first"

say "snapctl check --read-data"
"$snapctl" check --read-data
say "repository: $(du -sh "$dir/data" | cut -f1)"
