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

# The generation options, as `heed translate` has them: the groups of its help whose titles begin with "Generation: ".
generation_options() {
  "$heed" translate --help </dev/null | awk '
    /^[A-Z].*:$/ { list = /^Generation: / }
    list && /^$/ { next }
    list { if (/^Generation: / && some++) print ""; print }'
}

# The help without what all commands share, and without the generation options, which the page gives once; a last line tells
# which of these the command takes.
section() {
  printf '\n## heed %s\n\n```\n' "$*"
  "$heed" "$@" --help </dev/null | awk '
    function name_of(row) { match(row, /--[a-z-]+/); return substr(row, RSTART, RLENGTH) }
    function end_row() {
      if (row == "") return
      given[name_of(row)] = 1
      if (generation && (row in shared)) { taken = 1 } else { show(row) }
      row = ""
    }
    function show(text) {
      if (blank) print ""
      if (title != "") print title
      blank = 0; title = ""; print text
    }
    FNR == NR {  # the shared rows
      if (/^ +-/) { if (row != "") shared[row] = names[++count] = name_of(row); row = $0 }
      else if (/^                    /) row = row "\n" $0
      next
    }
    FNR == 1 { if (row != "") shared[row] = names[++count] = name_of(row); row = "" }
    /^                    / && row != "" { row = row "\n" $0; next }
    { end_row() }
    /^Common options:/ { skip = 1; next }
    /^$/ { skip = 0; blank = 1; title = ""; generation = 0; next }
    skip { next }
    /^Generation: .*:$/ { generation = 1; title = $0; next }
    generation && /^ +-/ { row = $0; next }
    { show($0) }
    END {
      print "```"
      if (!taken) exit
      for (i = 1; i <= count; i++) if (!(names[i] in given)) without = without (without == "" ? "" : ", ") "`" names[i] "`"
      print "Also the [generation options](#generation-options)" (without == "" ? "." : ", without " without ".")
    }' <(generation_options) -
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
  printf '```\n\nThe common options above are those of every command.\n\n## Generation options\n\n'
  printf 'What is generated, under the names of Hugging Face ([generation](generation.md)). The default of a length is that of the command.\n```\n'
  generation_options
  printf '```\n'
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
