#!/usr/bin/env bash
# Checks the Markdown pages under a root (default: this tree):
# - a relative link leads to an existing file, and its #anchor to a heading of that page;
# - a path of this tree that a page names exists (placeholders such as x.cpp, NAME or … are not checked);
# - a test that a page names, `Suite.Name` or a word like `ThisIsATest` in a table whose first column is headed "test",
#   is in tests/;
# - given a built command: the keys in docs/recipes.md are those of `heed train --list-keys`, the fields in docs/serve.md and
#   docs/explore.md those of `heed serve --list-fields` and `heed explore --list-fields`, every
#   `heed COMMAND --option` is in the help of COMMAND, or in that of heed, and docs/commands.md, where there is one, is
#   what scripts/commands.sh writes.
set -euo pipefail

usage() { echo "usage: scripts/check-docs.sh [--root DIR] [HEED]" >&2; exit 2; }
root=$(dirname "$0")/..
if [ "${1:-}" = --root ]; then
  [ $# -ge 2 ] || usage
  root=$2
  shift 2
fi
if [ $# -gt 1 ] || [[ "${1:-}" == -* ]]; then usage; fi
heed=
if [ $# = 1 ]; then
  heed=$(realpath "$1")
  [ -x "$heed" ] || { echo "check-docs: error: $1: not found (build it with: make build)" >&2; exit 1; }
fi
cd "$root"

mapfile -t pages < <(find . \( -name build -o -name .git -o -name shared \) -prune -o -name '*.md' -type f -print | sed 's,^\./,,' | sort)
if [ ${#pages[@]} -eq 0 ]; then
  echo "check-docs: error: no Markdown pages under $PWD" >&2
  exit 1
fi

errors=0
complain() { echo "check-docs: error: $1" >&2; errors=$((errors + 1)); }

# The anchors of a page, as GitHub makes them of its headings: small letters, hyphens for spaces, no punctuation.
anchors() {
  LC_ALL=C awk '
  /^ *```/ { code = !code }
  !code && /^#+ / {
    sub(/^#+ +/, "")
    text = tolower($0)
    gsub(/[\001-\037!-,.\/:-@[-^`{-~]/, "", text)
    gsub(/ /, "-", text)
    print text (seen[text]++ ? "-" seen[text] - 1 : "")
  }' "$1"
}

# What a page says, one finding a line: "link LINE TARGET", "path LINE PATH" or "command LINE WORDS...".
findings() {
  LC_ALL=C awk '
  function paths(text,    i, n, words) {
    n = split(text, words, /[ \t"(),;:=]+/)
    for (i = 1; i <= n; i++)
      if (words[i] ~ /^(\.ci|bench|cmake|docs|examples|fuzz|heed|include|models|recipes|scripts|src|tests|kernels|core)\/[A-Za-z0-9_.\/*-]*$/ && words[i] !~ /\/x[._]|NAME|\.\.\./)
        print "path", NR, words[i]
  }
  # Commands: heed and what follows it, up to the end of the command.
  function commands(text) {
    if (text !~ /^\$? *((\||mpirun -n [0-9N]+) *)?(build\/release\/)?heed( |$)/) return
    sub(/^[^h]*(build\/release\/)?heed */, "", text)
    gsub(/"[^"]*"/, "TEXT", text)
    sub(/ *(#|\||&&|;|<|>).*/, "", text)
    if (text != "") print "command", NR, text
  }
  /^ *```/ { code = !code; next }
  {
    line = $0
    if (code) {
      paths(line)
      if (line ~ /\\$/) { sub(/ *\\$/, "", line); joined = joined line " "; next }
      line = joined line; joined = ""
      sub(/^ */, "", line)
      part = line
      if (match(part, /\| heed /)) part = substr(part, RSTART + 2)
      commands(part)
      next
    }
    rest = line
    while (match(rest, /\]\([^) ]+\)/)) {
      target = substr(rest, RSTART + 2, RLENGTH - 3)
      if (target !~ /^(https?|mailto):/) print "link", NR, target
      rest = substr(rest, RSTART + RLENGTH)
    }
    table = line ~ /^\| *test/ || (table && line ~ /^\|/)
    n = split(line, spans, /`/)
    for (i = 2; i <= n; i += 2) {
      paths(spans[i]); commands(spans[i])
      if (spans[i] ~ /^[A-Z][A-Za-z0-9]*\.[A-Z][A-Za-z0-9]*$/ || (table && i == 2 && spans[i] ~ /^[A-Z][A-Za-z0-9]*$/))
        print "test", NR, spans[i]
    }
  }' "$1"
}

check_link() {  # PAGE LINE TARGET
  local file=${3%%#*} anchor=
  [[ "$3" == *'#'* ]] && anchor=${3#*#}
  if [ -z "$file" ]; then file=$1; else file=$(dirname "$1")/$file; fi
  if [ ! -e "$file" ]; then
    complain "$1:$2: link to $3: not found (correct the link)"
  elif [ -n "$anchor" ] && ! anchors "$file" | grep -qxF -e "$anchor"; then
    complain "$1:$2: link to $3: no such heading (correct the anchor)"
  fi
}

check_path() {  # PAGE LINE PATH, relative to the root, to src/ or to include/
  local path=${3%.} base
  for base in . src include; do compgen -G "$base/$path" >/dev/null && return; done
  complain "$1:$2: $3: not found (correct the path)"
}

tests=
check_test() {  # PAGE LINE SUITE.NAME or NAME
  if [ -z "$tests" ]; then
    tests=$(find tests -name '*.cpp' -exec cat {} + 2>/dev/null | tr -d '\n' |
            grep -oE 'TEST(_F|_P)?\( *[A-Za-z0-9]+, *[A-Za-z0-9]+' | sed -E 's/TEST(_F|_P)?\( *//; s/, */./') || true
  fi
  local pattern=$3
  if [[ "$3" == *.* ]]; then pattern=${3//./\\.}; else pattern=".*\\.$3"; fi
  grep -qxE -e "$pattern" <<<"$tests" || complain "$1:$2: test $3: not found in tests/ (correct the name)"
}

declare -A help_of
check_command() {  # PAGE LINE WORDS...
  local place=$1:$2 command=$3 word
  shift 3
  [[ "$command" == [a-z]* ]] || return 0
  if [[ "$command" == bench || "$command" == attribute ]] && [[ "${1:-}" == [a-z]* && "${1:-}" != *'|'* ]]; then command="$command $1"; fi
  if [ -z "${help_of[$command]+set}" ]; then
    # shellcheck disable=SC2086
    help_of[$command]=$("$heed" $command --help 2>/dev/null </dev/null) || help_of[$command]=
  fi
  if [ -z "${help_of[$command]}" ]; then
    complain "$place: heed $command: not a command (correct the page)"
    return
  fi
  for word in "$@"; do
    [[ "$word" =~ ^(--[a-z][a-z0-9-]*) ]] || continue
    word=${BASH_REMATCH[1]}
    if ! grep -qE -e "(^|[ ,])$word([^a-z0-9-]|\$)" <<<"${help_of[$command]}"$'\n'"$general"; then
      complain "$place: heed $command $word: not in its help (correct the page)"
    fi
  done
}
general=
if [ -n "$heed" ]; then general=$("$heed" --help); fi

# docs/commands.md is compared as a whole; CHANGELOG.md also speaks of names that went away.
for page in "${pages[@]}"; do
  while read -r kind line rest; do
    case $kind in
      link) check_link "$page" "$line" "$rest" ;;
      path) check_path "$page" "$line" "$rest" ;;
      test) check_test "$page" "$line" "$rest" ;;
      command) if [ -n "$heed" ] && [ "$page" != docs/commands.md ] && [ "$page" != CHANGELOG.md ]; then set -f; check_command "$page" "$line" $rest; set +f; fi ;;
    esac
  done < <(findings "$page")
done
if [ -n "$heed" ] && [ -f docs/recipes.md ] &&
   ! diff <(sed -n '/<!-- keys -->/,/<!-- \/keys -->/p' docs/recipes.md | sed '1d;$d') <("$heed" train --list-keys) >&2; then
  complain "docs/recipes.md: the keys differ from those of the command (copy the output of: heed train --list-keys)"
fi
# A page with the fields of a server's requests, and the command that lists them.
check_fields() {  # PAGE COMMAND
  [ -n "$heed" ] && grep -qx "<!-- fields -->" "$1" 2>/dev/null || return 0
  if ! diff <(sed -n '/<!-- fields -->/,/<!-- \/fields -->/p' "$1" | sed '1d;$d') <("$heed" "$2" --list-fields) >&2; then
    complain "$1: the fields differ from those of the command (copy the output of: heed $2 --list-fields)"
  fi
}
check_fields docs/serve.md serve
check_fields docs/explore.md explore
if [ -n "$heed" ] && [ -f docs/commands.md ]; then scripts/commands.sh "$heed" --check || errors=$((errors + 1)); fi
if [ $errors -gt 0 ]; then exit 1; fi
echo "check-docs: ${#pages[@]} pages name only what exists"
