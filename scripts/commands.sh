#!/usr/bin/env bash
# Writes docs/commands.md: what `heed COMMAND --help` says, of every command.
#   scripts/commands.sh HEED            writes the page
#   scripts/commands.sh HEED --check    fails if the page differs
set -euo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ] || [[ "$1" == -* ]] || [ "${2:---check}" != --check ]; then
  echo "usage: scripts/commands.sh HEED [--check]" >&2
  exit 2
fi
heed=$(realpath "$1")
page=$(dirname "$0")/../docs/commands.md

# The names of the commands below COMMAND..., from its help.
commands_below() {
  "$heed" "$@" --help </dev/null | awk '/^Usage:.* COMMAND/ { list = 1 } /^Common options:/ { list = 0 } list && /^  [a-z]/ { print $1 }'
}

# The help without what all commands share, which the page gives once.
section() {
  printf '\n## heed %s\n\n```\n' "$*"
  "$heed" "$@" --help </dev/null | awk '
    /^Common options:/ { skip = 1; next }
    skip && /^$/ { skip = 0 }
    skip { next }
    /^$/ { blank = 1; next }
    { if (blank) print ""; blank = 0; print }'
  printf '```\n'
}

write_page() {
  cat <<'HEAD'
# Commands

This page lists every command with its arguments and options, as `heed COMMAND --help` prints them; `scripts/commands.sh` writes it.
What the commands are for, with results, is in [Getting started](getting-started.md). To find the command for a model:
```
heed models
```

HEAD
  printf '```\n'
  "$heed" --help </dev/null
  printf '```\n\nThe common options above are those of every command.\n'
  local command below
  while read -r command; do
    section "$command"
    while read -r below; do
      [ -n "$below" ] && section "$command" "$below"
    done < <(commands_below "$command")
  done < <(commands_below)
}

if [ $# = 1 ]; then
  write_page >"$page.new"
  mv "$page.new" "$page"
elif ! write_page | cmp -s - "$page"; then
  echo "commands: error: docs/commands.md differs from the help of the commands (run: scripts/commands.sh HEED)" >&2
  exit 1
fi
