#!/usr/bin/env bash
# Checks what `make install` has put under a prefix, as a user would use it: the links of the installed pages, the command away
# from this tree, the README's C++ program by CMake and by pkg-config, examples/consumer, and the commands
# of guides.
# usage: scripts/check-install.sh PREFIX
set -euo pipefail
prefix=$(realpath "${1:?usage: scripts/check-install.sh PREFIX}")
cd "$(dirname "$0")/.."
tree=$PWD folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Relative links of the installed pages lead to what is installed.
broken=0
while IFS= read -r page; do
  while IFS= read -r target; do
    [[ $target == [a-z]*:* || -z $target || -e $(dirname "$page")/$target ]] && continue
    echo "check-install: error: $page: no $target (install it, or do not link to it)" >&2
    broken=1
  done < <(awk '/^ *```/ { code = !code } !code' "$page" | grep -o '\](\([^)# ]*\)[)#]' | sed 's/^](//; s/.$//')
done < <(find "$prefix/share/doc/heed" -name '*.md')
[ $broken = 0 ] || exit 1

# The README's program and the lines that link it: its first blocks of their kinds.
block() { awk -v kind="$1" '$0 == "```" kind { code = 1; next } code && /^```/ { exit } code' README.md; }
mkdir "$folder/program"
block cpp >"$folder/program/main.cpp"
{
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(program LANGUAGES CXX)\nadd_executable(my_program main.cpp)\n'
  block cmake
} >"$folder/program/CMakeLists.txt"

build() { cmake -S "$1" -B "$folder/$2" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" --log-level=WARNING >/dev/null && cmake --build "$folder/$2" >/dev/null; }
build "$folder/program" by-cmake
build examples/consumer consumer
read -ra flags < <(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs heed)
g++ -std=c++20 "$folder/program/main.cpp" "${flags[@]}" -o "$folder/by-pkg-config"

cd /
"$prefix/bin/heed" --version
said=$("$prefix/bin/heed" translate "The black cat drinks milk.")
for program in by-cmake/my_program by-pkg-config; do
  got=$("$folder/$program")
  if [ "$got" != "$said" ]; then echo "check-install: error: the README's program ($program): expected $said, got $got" >&2; exit 1; fi
done
"$folder/consumer/consumer"
"$folder/consumer/translate" "Good morning."
PATH=$prefix/bin:$PATH "$tree/scripts/check-guides.sh" "$tree/docs/tasks.md" "$tree/docs/training-data.md"
echo "check-install: $prefix works without $tree"
