#!/usr/bin/env bash
# Tests check-docs.sh: a right page passes, and each kind of mistake is found, alone.
set -euo pipefail

checker=$(cd "$(dirname "$0")" && pwd)/check-docs.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0

fail() { echo "check-docs-test: error: $1" >&2; cat "$work/output" >&2; exit 1; }

# A command with the help of `heed show` and `heed bench gemm`.
cat >"$work/heed" <<'SCRIPT'
#!/usr/bin/env bash
case "$*" in
  --help) echo '  -q,--quiet   No progress' ;;
  'show --help') echo '  -k,--kind TEXT   Which'; echo '  --do-sample,--no-do-sample   Sample' ;;
  'bench gemm --help') echo '  --rows INT   Rows' ;;
  *) exit 2 ;;
esac
SCRIPT
chmod +x "$work/heed"

# page LINES...: a tree with src/ops/add.cpp, include/heed/ops/add.h, docs/other.md and docs/page.md of these lines.
page() {
  rm -rf "$work/tree"
  mkdir -p "$work/tree/docs" "$work/tree/src/ops" "$work/tree/include/heed/ops" "$work/tree/tests"
  echo 'TEST(Add, Adds) {}' >"$work/tree/tests/add_test.cpp"
  touch "$work/tree/src/ops/add.cpp" "$work/tree/include/heed/ops/add.h"
  printf '# Other\n\n## What `it` costs, and why\n```\n# not a heading\n```\n' >"$work/tree/docs/other.md"
  printf '%s\n' "$@" >"$work/tree/docs/page.md"
}

passes() {
  page "${@:2}"
  "$checker" --root "$work/tree" "$work/heed" >"$work/output" 2>&1 || fail "$1: expected it to pass"
  count=$((count + 1))
}

finds() {  # WHAT MESSAGE LINES...
  page "${@:3}"
  if "$checker" --root "$work/tree" "$work/heed" >"$work/output" 2>&1; then fail "$1: expected a failure"; fi
  grep -qF -e "$2" "$work/output" || fail "$1: expected the message: $2"
  [ "$(grep -c 'error:' "$work/output")" = 1 ] || fail "$1: expected one error"
  count=$((count + 1))
}

passes 'a right page' '# Page' '[o](other.md) [a](other.md#what-it-costs-and-why) [p](#page) [w](https://example.org/x#y)' \
  'Read `src/ops/add.cpp`, `heed/ops/add.h`, `ops/` and `src/*/add.cpp`; write `src/ops/x.cpp` or `tests/…`.' \
  '```' '$ heed show --kind cross --quiet | sort --reverse' 'heed show --no-do-sample \' '  --kind=self  # --none' \
  '[not](a-link.md)' 'heed bench gemm --rows 3' '```' 'Use `heed show -k x`. `Add.Adds` tests it.'
finds 'a lost page' 'link to gone.md: not found' '[g](gone.md)'
finds 'a lost heading' 'link to other.md#costs: no such heading' '[g](other.md#costs)'
finds 'a comment in code as a heading' 'no such heading' '[g](other.md#not-a-heading)'
finds 'a lost heading of the same page' 'link to #nowhere: no such heading' '# Page' '[g](#nowhere)'
finds 'a lost path' 'docs/page.md:2: src/ops/sub.cpp: not found' '' 'See `src/ops/sub.cpp`.'
finds 'a lost path in code' 'heed/ops/sub.h: not found' '```cpp' '#include "heed/ops/sub.h"' '```'
finds 'an unknown option' 'heed show --color: not in its help' '```' 'heed show --color' '```'
finds 'the beginning of an option' 'heed show --kin: not in its help' 'Run `heed show --kin x`.'
finds 'an option on the next line' 'heed show --far: not in its help' '```' 'heed show \' '  --far' '```'
finds 'an option behind a pipe' 'heed show --rows: not in its help' '```' 'echo x | heed show --rows 3' '```'
finds 'an unknown command' 'heed sing: not a command' '```' '$ heed sing --kind x' '```'
finds 'a lost test' 'docs/page.md:1: test Add.Subtracts: not found' 'See `Add.Subtracts` and `Add.Adds`.'
finds 'a lost test in a table' 'test NeverAdds: not found' '| test | what |' '|---|---|' '| `Adds` | a |' '| `NeverAdds` | b |'
echo "check-docs-test: $count cases"
