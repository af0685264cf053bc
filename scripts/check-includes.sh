#!/usr/bin/env bash
# Checks the module structure of the sources under a root (default: this tree):
# - a module includes itself and the modules that its line in src/modules.txt names;
# - a public header includes the standard library and public headers, nothing else;
# - kernels are called from tensor and ops alone, so that another backend has one place to be chosen; the measurements of
#   heed bench ask kernels/machine.h for the limits of the processor;
# - libcurl appears in src/hub alone: nothing else opens a connection;
# - Boost appears in src/server/http_server.cpp alone: nothing else listens;
# - mpi.h appears in src/mpi/mpi.cpp alone;
# - no source uses OpenMP, whose threads would be added to those of heed/threads.h;
# - only src/cli prints or exits, and prints through print_stdout(), which escapes what could change a terminal;
# - models are told apart by casts in src/models alone (heed/models/kind.h has visit() and as());
# - models and tokenizers are found and loaded by src/open alone, and by training, which makes new heads;
# - a public header opens "namespace HEED_API heed";
# - the comment of a public class, except errors, tells what threads may share ("Threads:");
# - a file has at most 700 lines.
# Tests, benchmarks and examples may include what they like; for them only the sizes count.
set -euo pipefail

if [ $# -gt 1 ] || [[ "${1:-}" == -* ]]; then
  echo "usage: scripts/check-includes.sh [ROOT]" >&2
  exit 2
fi
cd "${1:-$(dirname "$0")/..}"

mapfile -t files < <(find include src tests bench examples \( -name '*.h' -o -name '*.cpp' \) -type f 2>/dev/null | sort)
if [ ${#files[@]} -eq 0 ]; then
  echo "check-includes: error: no C++ files under $PWD" >&2
  exit 1
fi

awk '
BEGIN {
  most_lines = 700
  while ((getline line < "src/modules.txt") > 0) if (line ~ /^[a-z]/) add_module(line)
  close("src/modules.txt")
  # Public headers in include/heed/ itself: those of core, tensor.h, autograd.h, and MODULE.h for a whole module.
  n = split("error export version dtype shape buffer threads random", list, " ")
  for (i = 1; i <= n; ++i) top_header[list[i]] = "core"
  top_header["tensor"] = top_header["autograd"] = "tensor"
  for (module in modules) if (!(module in top_header)) top_header[module] = module
  top_header["heed"] = "everything"
}

# A line of src/modules.txt: the module may include itself, the modules named, and for `x+` those of x.
function add_module(line,   field, list, module, name, lower, i) {
  split(line, field, / *[|] */)
  name = field[1]
  modules[name] = 1; allowed[name, name] = 1
  for (i = split(field[3], list, " "); i > 0; --i) {
    lower = list[i]
    if (sub(/[+]$/, "", lower)) for (module in modules) if ((lower, module) in allowed) allowed[name, module] = 1
    if (!(lower in modules)) { printf "src/modules.txt: %s includes %s, which stands in no line above\n", name, lower; ++failures }
    allowed[name, lower] = 1
  }
}

function report(message) {
  printf "%s:%d: %s\n", FILENAME, FNR, message
  ++failures
}

# The module of heed/<rest>: its folder, or for a header directly under heed/ the table above.
function public_module(rest) {
  if (rest ~ /\//) { sub(/\/.*/, "", rest); return (rest in modules) ? rest : "" }
  sub(/\.h$/, "", rest)
  return (rest in top_header) ? top_header[rest] : ""
}

function check_size() {
  if (lines <= most_lines) return
  printf "%s: %d lines; %d is the limit (split it)\n", previous, lines, most_lines
  ++failures
}

function start_file(   rest) {
  if (previous != "") check_size()
  previous = FILENAME; ++files
  checked = 0; is_public = 0; about_threads = 0; module = ""
  in_comment = 0; raw_end = ""
  if (FILENAME ~ /^include\//) {
    checked = 1; is_public = 1
    rest = FILENAME; sub(/^include\/heed\//, "", rest)
    module = public_module(rest)
    if (module == "") report("this header belongs to no module of src/modules.txt")
  } else if (FILENAME ~ /^src\//) {
    checked = 1
    rest = FILENAME; sub(/^src\//, "", rest); sub(/\/.*/, "", rest)
    module = rest
    if (!(module in modules)) { report("src/modules.txt has no module " module); module = "" }
  }
}

# The module an include leads to, "" for one outside heed.
function included_module(quoted, path,   first) {
  if (path ~ /^heed\//) {
    first = path; sub(/^heed\//, "", first)
    first = public_module(first)
    if (first == "") report("\"" path "\" belongs to no module of src/modules.txt")
    return first
  }
  if (!quoted) return ""
  if (path !~ /\//) return module
  first = path; sub(/\/.*/, "", first)
  return (first in modules) ? first : ""
}

function check_include(line,   quoted, path, target) {
  quoted = line ~ /include[ \t]*"/
  path = line
  sub(/^[ \t]*#[ \t]*include[ \t]*["<]/, "", path); sub(/[">].*/, "", path)
  if (path ~ /^kernels\// && module !~ /^(kernels|tensor|ops)$/ && path != "kernels/machine.h")
    report("only tensor and ops call kernels (call the operation in heed/ops/)")
  if (path ~ /^curl\// && FILENAME !~ /^src\/hub\//)
    report("only src/hub includes libcurl")
  if (path ~ /^boost\// && FILENAME != "src/server/http_server.cpp")
    report("only src/server/http_server.cpp includes Boost")
  if (path ~ /^(sys\/socket|netdb|netinet\/in|arpa\/inet)\.h$/ && FILENAME != "src/server/service_manager.cpp")
    report("nothing opens connections by itself (src/hub does, with libcurl; src/server/service_manager.cpp writes to systemd)")
  if (path == "mpi.h" && FILENAME != "src/mpi/mpi.cpp")
    report("only src/mpi/mpi.cpp includes mpi.h (use heed/distributed/communicator.h)")
  if (path == "omp.h") report("no source includes omp.h (use heed/threads.h)")
  if (is_public && path !~ /^heed\// && (quoted || path !~ /^[a-z_0-9]+$/))
    report("a public header includes only the standard library and \"heed/...\", not " path)
  target = included_module(quoted, path)
  if (target == "" || module == "" || module == "everything") return
  if (target == "everything") report("heed/heed.h is for programs that use heed, not for its modules")
  else if (!((module, target) in allowed)) report(module " may not include " target " (" path ")")
}

# The line without comments and without the content of string literals.
function code_of(line,   start, close_mark) {
  if (raw_end != "") {
    start = index(line, raw_end)
    if (!start) return ""
    line = "\"\"" substr(line, start + length(raw_end)); raw_end = ""
  }
  if (in_comment) {
    start = index(line, "*/")
    if (!start) return ""
    line = substr(line, start + 2); in_comment = 0
  }
  while (match(line, /R"[A-Za-z_0-9]*\(/)) {
    close_mark = ")" substr(line, RSTART + 2, RLENGTH - 3) "\""
    start = index(substr(line, RSTART + RLENGTH), close_mark)
    if (!start) { raw_end = close_mark; line = substr(line, 1, RSTART - 1); break }
    line = substr(line, 1, RSTART - 1) "\"\"" substr(line, RSTART + RLENGTH + start - 1 + length(close_mark))
  }
  gsub(/\\\\/, "", line); gsub(/\\"/, "", line); gsub(/\047"\047/, "", line)
  gsub(/"[^"]*"/, "\"\"", line)
  sub(/\/\/.*/, "", line)
  gsub(/\/\*([^*]|\*[^\/])*\*\//, "", line)
  if (start = index(line, "/*")) { line = substr(line, 1, start - 1); in_comment = 1 }
  return line
}

function check_output(code) {
  if (module == "cli" && FILENAME !~ /^src\/cli\/terminal\// && code ~ /(^|[^A-Za-z0-9_])fmt::print(ln)?[ \t]*\(/)
    report("texts reach a terminal through print_stdout() (src/cli/terminal/terminal.h)")
  if (module == "cli") return
  if (code ~ /(^|[^A-Za-z0-9_])(cout|cerr|clog|stdout|stderr)([^A-Za-z0-9_]|$)/ ||
      code ~ /(^|[^A-Za-z0-9_])(v?printf|puts|putchar|perror)[ \t]*\(/ ||
      code ~ /(^|[^A-Za-z0-9_])fmt::print(ln)?[ \t]*\(/)
    report("only src/cli prints (throw heed::Error, or return the text)")
  if (code ~ /(^|[^A-Za-z0-9_.>])(_?exit|_Exit|quick_exit|abort|terminate)[ \t]*\(/)
    report("only src/cli exits (throw heed::Error)")
}

function check_models(code) {
  if (module == "models" || module == "") return
  if (code ~ /dynamic_cast<(const )?([A-Za-z]*(Decoder|Encoder)Model|Model) *[*&]>/)
    report("only src/models casts models (use visit() or as() of heed/models/kind.h)")
  if (code ~ /(^|[^A-Za-z0-9_])(load_model|load_model_body|load_tokenizer|find_model)\(/ &&
      module !~ /^(open|train|text|everything)$/)
    report("only src/open finds and loads models and tokenizers (take a LoadedModel)")
}

# A class of a public header, whose comment is the lines of /// before it.
function check_threads(line) {
  if (line ~ /^\/\/\//) { if (line ~ /Threads:/) about_threads = 1; return }
  if (line ~ /^template </ || line ~ /^class [A-Za-z_0-9]+;/) return
  if (line ~ /^class [A-Za-z_0-9]+[^;]*\{/ && !about_threads && line !~ /: public (std::runtime_error|std::logic_error|Error) /)
    report("the comment of this class has no \"Threads:\" (write what threads may share)")
  about_threads = 0
}

FNR == 1 { start_file() }
{ lines = FNR }
!checked { next }
is_public { check_threads($0) }
is_public && /^namespace heed / { report("a public header opens \"namespace HEED_API heed\", so that a shared library exports it") }
{
  code = code_of($0)
  if (code ~ /^[ \t]*#[ \t]*include[ \t]*["<]/) check_include($0)
  else { check_output(code); check_models(code) }
}

END {
  check_size()
  if (failures) { printf "check-includes: error: %d findings in %d files\n", failures, files; exit 1 }
  printf "check-includes: %d files respect the module structure\n", files
}
' "${files[@]}"
