#!/usr/bin/env bash
# Builds heed for 64-bit ARM with Debian's cross compiler and runs tests under emulation, on x86-64:
#   scripts/arm64.sh            the command, and the tests of the modules below
#   scripts/arm64.sh MODULE...  the tests of these modules only
# The tests of kernels run on three processors: with i8mm (usdot), with dot products (sdot), and with neither. How long
# anything takes under emulation says nothing of a real processor.
#
# The libraries for ARM are downloaded and unpacked into build/arm64/root, with a package database of their own: installed
# beside this machine's they would replace some, as libsentencepiece-dev does. All programs run with the loader and the C
# library of that folder: with a loader of another build, the first thread that is created loops for ever.
set -euo pipefail
cd "$(dirname "$0")/.."
modules=("$@") targets=()
if [ $# -eq 0 ]; then
  modules=(kernels models ops text nn core tensor)
  targets=(heed_command)
fi
folder=$PWD/build/arm64 root=$PWD/build/arm64/root

fail() { echo "arm64: error: $*" >&2; exit 1; }
[ "$(uname -m)" = x86_64 ] || fail "this compiles on x86-64 for ARM; on a machine of ARM, run: make test"
scripts/install-deps.sh --arm64
libraries=$(scripts/install-deps.sh --libraries)
libraries=${libraries/libopenmpi-dev,/}  # processes that compute together are not emulated

if [ "$(cat "$root/packages" 2>/dev/null)" != "$libraries" ]; then
  echo "arm64: downloading the libraries into build/arm64/root"
  rm -rf "$root" "$folder/apt"
  mkdir -p "$root" "$folder"/apt/{lists,archives}/partial
  : >"$folder/apt/installed"
  cat >"$folder/apt/apt.conf" <<TEXT
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Dir::State "$folder/apt";
Dir::State::status "$folder/apt/installed";
Dir::Cache "$folder/apt";
TEXT
  export APT_CONFIG=$folder/apt/apt.conf
  apt-get update -qq || echo "arm64: apt-get update failed; trying with the package lists that came"
  apt-get satisfy --download-only -y -qq "$libraries" >/dev/null || fail "apt-get could not download them (its message is above)"
  unset APT_CONFIG
  for package in "$folder"/apt/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
  find "$root"/{lib,usr/lib} -type l -lname '/*' -printf '%l %p\n' |
    while read -r to link; do ln -sfn "$root$to" "$link"; done
  rm -rf "$folder/apt"
  echo "$libraries" >"$root/packages"
fi

read -ra arguments <<<"${CMAKE_ARGS:-}"
cmake --preset arm64 "${arguments[@]}" --log-level=WARNING >/dev/null
for module in "${modules[@]}"; do targets+=("heed_${module}_test"); done
cmake --build --preset arm64 --parallel "${JOBS:-$(scripts/build-jobs.sh)}" --target "${targets[@]}"

qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64)
export folder root qemu
# emulated PROCESSOR PROGRAM ARGUMENTS...
emulated() { QEMU_CPU=$1 timeout -s KILL 7200 "$qemu" -L "$root" "$folder/heed/$2" "${@:3}"; }
# run_tests MODULE PROCESSOR [INSTRUCTIONS]: prints how many passed.
run_tests() {
  local log=$folder/$1-$2.log began=$SECONDS named=Machine.TargetsAreNamedAfterTheirProductsOfBytes
  if ! emulated "$2" "heed_$1_test" --gtest_filter=-Machine.NoProductIsFasterThanTheArithmeticRate >"$log" 2>&1 ||
    ! { [ $# -eq 2 ] || HEED_TARGET=$3 emulated "$2" "heed_$1_test" --gtest_filter=$named >>"$log" 2>&1; }; then
    tail -n 60 "$log"
    echo "arm64: $1 on $2: failed (all of it is in $log)"
    exit 255  # xargs starts no other
  fi
  printf 'arm64: %-8s on %-12s %4d tests passed, %3d s\n' "$1" "$2" "$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p; T; q' "$log")" $((SECONDS - began))
}
export -f emulated run_tests
for module in "${modules[@]}"; do
  if [ "$module" = kernels ]; then
    printf 'kernels %s\n' "max neon-i8mm" "neoverse-n1 neon-dotprod" "cortex-a72 neon"
  else
    echo "$module max"
  fi
done | xargs -P "$(nproc)" -L 1 bash -c 'run_tests "$@"' arm64
