#!/usr/bin/env bash
# Tests check-includes.sh: a right tree passes, and each violation of the module structure is found, alone.
set -euo pipefail

checker=$(cd "$(dirname "$0")" && pwd)/check-includes.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0

# put FILE LINES...: writes a file into the tree under test.
put() {
  mkdir -p "$work/tree/$(dirname "$1")"
  printf '%s\n' "${@:2}" >"$work/tree/$1"
}

write_right_tree() {
  mkdir -p "$work/tree/src"
  cp "$(dirname "$checker")/../src/modules.txt" "$work/tree/src/"
  put include/heed/error.h '#pragma once' '#include <string>' '#include "heed/dtype.h"'
  put include/heed/tensor.h '#include "heed/error.h"'
  put include/heed/nn/attention.h '#include "heed/ops/softmax.h"' '#include "heed/ops.h"'
  put include/heed/heed.h '#include "heed/nn/attention.h"' '#include "heed/train/trainer.h"'
  put src/core/threads.cpp '#include <thread>'
  put src/kernels/cpu/gemm.cpp '#include "kernels/gemm.h"'
  put src/ops/softmax.cpp '#include "ops/iterate.h"' '#include "iterate.h"' '#include "kernels/softmax.h"' \
    '#include "hwy/highway.h"' '// std::cout << "not code"; exit(1);' 'auto s = "exit(1)" "printf(";' \
    '/* cerr' '   exit(1) */ int snprintf_like(int);' 'auto t = R"x(' 'std::cout << exit(1)' ')x";' \
    'on_exit(2); guard.exit();'
  put src/inspect/page.cpp '#include "heed/models/model.h"' '#include "heed/text/tokenizer.h"'
  put src/train/trainer.cpp '#include "heed/score/bleu.h"' '#include "heed/generate/beam.h"' '#include "data/batch.h"'
  put src/hub/http.cpp '#include <curl/curl.h>' '#include "heed/files/file.h"'
  put src/cli/main.cpp '#include "heed/train/trainer.h"' 'int main() { std::cout << 1; std::exit(2); }'
  put tests/ops/softmax_test.cpp '#include "heed/heed.h"' 'int main() { printf("free"); }'
}

right_tree() {
  rm -rf "$work/tree"
  cp -r "$work/right" "$work/tree"
}

fail() { echo "check-includes-test: error: $1" >&2; cat "$work/output" >&2; exit 1; }

# finds EXPECTED: the checker fails on the tree, for this one reason.
finds() {
  count=$((count + 1))
  if "$checker" "$work/tree" >"$work/output" 2>&1; then fail "passed, though expected: $1"; fi
  grep -qF "$1" "$work/output" || fail "did not say: $1"
  grep -q 'error: 1 findings' "$work/output" || fail "found something else beside: $1"
  right_tree
}

write_right_tree
cp -r "$work/tree" "$work/right"
"$checker" "$work/tree" >"$work/output" 2>&1 || fail "the right tree does not pass"

put include/heed/shape.h 'namespace heed {';                   finds 'a public header opens "namespace HEED_API heed"'
put src/core/shape.cpp '#include "heed/tensor.h"';             finds 'src/core/shape.cpp:1: core may not include tensor'
put src/kernels/copy.h '' '# include "heed/autograd.h"';       finds 'src/kernels/copy.h:2: kernels may not include tensor'
put src/tensor/view.cpp '#include "heed/ops/copy.h"';          finds 'tensor may not include ops'
put include/heed/ops/copy.h '#include "heed/nn/attention.h"';  finds 'include/heed/ops/copy.h:1: ops may not include nn'
put src/nn/attention.cpp '#include "models/registry.h"';       finds 'nn may not include models'
put src/models/families/marian.cpp '#include "heed/train/trainer.h"';   finds 'models may not include train'
put src/generate/beam.cpp '#include "heed/inspect/record.h"';    finds 'generate may not include inspect'
put src/inspect/page.cpp '#include "heed/train/trainer.h"';    finds 'inspect may not include train'
put src/train/run/loop.cpp '#include "cli/options.h"';             finds 'train may not include cli'
put src/text/algorithms/unigram.cpp '#include "heed/tensor.h"';           finds 'text may not include tensor'
put src/score/bleu.cpp '#include "heed/text/tokenizer.h"';     finds 'score may not include text'
put src/data/corpus.cpp '#include "heed/ops/copy.h"';          finds 'data may not include ops'
put src/io/safetensors.cpp '#include "heed/text/tokenizer.h"'; finds 'io may not include text'
put src/nn/linear.cpp '#include "heed/heed.h"';                finds 'heed/heed.h is for programs'
sed -i 's/^core .*/core | libheed | tensor | dtypes/' "$work/tree/src/modules.txt"; finds 'core includes tensor, which stands in no line above'
put src/gpu/copy.cpp '';                                       finds 'src/modules.txt has no module gpu'
put include/heed/strange.h '';                                 finds 'belongs to no module'
put src/nn/linear.cpp '#include "heed/strange.h"';             finds '"heed/strange.h" belongs to no module'
put include/heed/io/json.h '#include <nlohmann/json.hpp>';     finds 'not nlohmann/json.hpp'
put include/heed/text/model.h '#include <sentencepiece_processor.h>'; finds 'not sentencepiece_processor.h'
put include/heed/tensor.h '#include "tensor/storage.h"';       finds 'not tensor/storage.h'
put src/nn/linear.cpp '#include "kernels/gemm.h"';             finds 'only tensor and ops call kernels'
put src/io/file.cpp '#include <curl/curl.h>';                   finds 'only src/hub includes libcurl'
put src/cli/main.cpp '#include <curl/curl.h>';                  finds 'only src/hub includes libcurl'
put src/inspect/page.cpp '#include <boost/beast.hpp>';           finds 'only src/server/http_server.cpp includes Boost'
put src/hub/http.cpp '#include <sys/socket.h>';                 finds 'nothing opens connections by itself'
put src/hub/http.cpp '#include "heed/models/registry.h"';       finds 'hub may not include models'
put src/models/find.cpp '#include "hub/pull.h"';                finds 'models may not include hub'
put src/data/reader.cpp '#include <omp.h>';                    finds 'no source includes omp.h'
put src/nn/linear.cpp 'void f() { std::cout << 1; }';          finds 'src/nn/linear.cpp:1: only src/cli prints'
put src/nn/linear.cpp 'void f() { std::printf("%d", 1); }';    finds 'only src/cli prints'
put src/nn/linear.cpp 'void f() { fprintf(stderr, "x"); }';    finds 'only src/cli prints'
put src/train/run/loop.cpp 'auto s = R"(a)"; fmt::print("x");';    finds 'only src/cli prints'
put src/train/run/loop.cpp '/* why */ std::exit(1);';              finds 'only src/cli exits'
put src/core/shape.cpp 'auto s = "a\"b"; abort();';            finds 'only src/cli exits'

put include/heed/dtype.h '/// A class.' 'class A {' '};';        finds 'include/heed/dtype.h:2: the comment of this class has no "Threads:"'
put include/heed/dtype.h '/// A class.' '/// Threads: one.' 'template <class T>' 'class A final : public B {' '};' 'class B;' \
  'class E : public Error {' '};'
"$checker" "$work/tree" >"$work/output" 2>&1 || fail "a class whose comment has Threads: does not pass"
right_tree

mapfile -t long < <(seq 701)
put tests/ops/long_test.cpp "${long[@]}";                      finds 'tests/ops/long_test.cpp: 701 lines'
put src/nn/long.cpp "${long[@]:0:700}"
"$checker" "$work/tree" >"$work/output" 2>&1 || fail "700 lines are allowed"
rm -rf "$work/tree" && mkdir "$work/tree"
if "$checker" "$work/tree" >"$work/output" 2>&1; then fail "an empty tree passes"; fi

echo "check-includes-test: $count violations of the module structure are found"
