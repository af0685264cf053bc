#!/usr/bin/env bash
# Updates the first table of docs/models.md: scripts/models-table.sh [BUILD FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
table=$("${1:-build/release}/models_table" tests/fixtures tests/fixtures/encoders tests/fixtures/decoders)
page=docs/models.md
{
  sed '/^<!-- models_table -->$/q' "$page"
  printf '%s\n' "$table"
  sed -n '/^<!-- end -->$/,$p' "$page"
} >"$page.new"
mv "$page.new" "$page"
