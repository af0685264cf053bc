#!/usr/bin/env bash
# Compiles (without code) every ```cpp block with a main function of the Markdown pages of this tree, so that a program
# which a page shows can be pasted as it is.
#   scripts/check-snippets.sh [COMPILER]
set -euo pipefail
if [ $# -gt 1 ] || [[ "${1:-}" == -* ]]; then echo "usage: scripts/check-snippets.sh [COMPILER]" >&2; exit 2; fi
compiler=${1:-c++}
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# FOLDER/N.cpp for each program; its first line names the page and the line for the compiler's messages.
awk -v folder="$folder" '
FNR == 1 { code = 0 }
/^```/ {
  if (code && text ~ /int main\(/) {
    file = sprintf("%s/%03d.cpp", folder, ++count)
    printf "#line %d \"%s\"\n%s", begin, FILENAME, text > file
    close(file)
  }
  code = $0 == "```cpp"; begin = FNR + 1; text = ""
  next
}
code { text = text $0 "\n" }' README.md docs/*.md

programs=("$folder"/*.cpp)
if [ ! -e "${programs[0]}" ]; then echo "check-snippets: error: no programs in README.md and docs/" >&2; exit 1; fi
for program in "${programs[@]}"; do
  "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Werror -Iinclude "$program"
done
echo "check-snippets: ${#programs[@]} programs of the pages compile"
