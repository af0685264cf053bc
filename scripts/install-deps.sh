#!/usr/bin/env bash
# Installs the Debian (12 or 13) packages that heed needs and that are missing. Asks no questions, and does nothing if
# none is missing.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: scripts/install-deps.sh [--format] [--deb] [--clang] [--ci] [--arm64] [--dry-run | --libraries]
  --format     also clang-format
  --deb        also what make deb needs
  --clang      also clang and its sanitizers
  --ci         also what the continuous checks need: all of these, ccache, zsh, whose completion is tested, and
               mmdebstrap, which makes a bare Debian
  --arm64      also what scripts/arm64.sh needs: the compiler for 64-bit ARM and its emulator
  --dry-run    list what is missing, install nothing
  --libraries  print the packages of libraries as apt-get satisfy takes them, install nothing
TEXT
}

# One line a need; where releases name the package differently, the alternatives in order of preference.
packages=(
  build-essential
  cmake
  ninja-build
  'pkgconf|pkg-config'
  libhwy-dev
  libsentencepiece-dev
  libicu-dev
  nlohmann-json3-dev
  libcli11-dev
  libboost-dev
  libfmt-dev
  libtomlplusplus-dev
  libpng-dev
  'libjpeg62-turbo-dev|libjpeg-dev'
  libwebp-dev
  libgif-dev
  libsndfile1-dev
  libmpg123-dev
  libsoxr-dev
  libkissfft-dev
  libeigen3-dev
  libfreetype-dev
  libfontconfig-dev
  libcairo2-dev
  libexpat1-dev
  fonts-dejavu-core
  zlib1g-dev
  'libcurl4-openssl-dev|libcurl4-gnutls-dev'
  nettle-dev
  libedit-dev
  libopenmpi-dev
  openmpi-bin
  libgtest-dev
  libgmock-dev
  libbenchmark-dev
  python3-venv
  libpython3-dev
)
format_packages=('clang-format-14|clang-format')
deb_packages=(dpkg-dev file)
clang_packages=('clang-14|clang' 'libclang-rt-14-dev|libclang-rt-dev')
ci_packages=("${format_packages[@]}" "${deb_packages[@]}" "${clang_packages[@]}" git ccache zsh mmdebstrap)
arm64_packages=(
  g++-aarch64-linux-gnu
  'qemu-user-static|qemu-user'
)

# shellcheck disable=SC1091
release=$(. /etc/os-release 2>/dev/null && echo "${ID:-} ${VERSION_ID:-}") || release=
if [ "$release" = "debian 13" ]; then
  packages+=(libprotobuf-dev)  # its sentencepiece.pc asks for protobuf-lite, its package does not
fi

dry_run=no libraries=no
for argument in "$@"; do
  case $argument in
    --format) packages+=("${format_packages[@]}") ;;
    --deb) packages+=("${deb_packages[@]}") ;;
    --clang) packages+=("${clang_packages[@]}") ;;
    --ci) packages+=("${ci_packages[@]}") ;;
    --arm64) packages+=("${arm64_packages[@]}") ;;
    --dry-run) dry_run=yes ;;
    --libraries) libraries=yes ;;
    -h | --help) usage; exit 0 ;;
    *) echo "install-deps: unknown option $argument" >&2; usage >&2; exit 2 ;;
  esac
done

say() { echo "install-deps: $*"; }
fail() { echo "install-deps: error: $*" >&2; exit 1; }

if [ $libraries = yes ]; then
  printf '%s\n' "${packages[@]//|/ | }" | grep -e -dev | grep -v python | paste -sd ,
  exit 0
fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  say "this is no Debian system; heed needs the equivalents of these packages:"
  printf '  %s\n' "${packages[@]//|/ or }"
  say "continuing: configuring will name what is missing"
  exit 0
fi

is_installed() { [[ $(dpkg-query -W -f '${db:Status-Status} ' "$1" 2>/dev/null) =~ (^| )installed ]]; }

missing=()
for need in "${packages[@]}"; do
  found=no
  for name in ${need//|/ }; do
    if is_installed "$name"; then found=yes; fi
  done
  if [ $found = no ]; then missing+=("$need"); fi
done

if [ ${#missing[@]} -eq 0 ]; then
  say "all ${#packages[@]} packages are installed"
  exit 0
fi
say "missing: ${missing[*]//|/ or }"
if [ $dry_run = yes ]; then exit 0; fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null ||
    fail "installing needs root or sudo, and there is neither (as root, run: scripts/install-deps.sh $*)"
  as_root=(sudo)
  if [ ! -t 0 ]; then as_root+=(-n); fi  # nobody is there to type a password
fi
as_root+=(env DEBIAN_FRONTEND=noninteractive)

say "running: apt-get update"
"${as_root[@]}" apt-get update -qq </dev/null || say "apt-get update failed; trying with the package lists that are here"

# The first alternative that this release has.
available() { [[ $(LC_ALL=C apt-cache policy "$1" 2>/dev/null) =~ Candidate:\ [^\(] ]]; }
chosen=()
for need in "${missing[@]}"; do
  choice=
  for name in ${need//|/ }; do
    if [ -z "$choice" ] && available "$name"; then choice=$name; fi
  done
  if [ -z "$choice" ]; then
    fail "no package ${need//|/ or } in this system's lists (heed needs Debian 12 or later, and a network to install from)"
  fi
  chosen+=("$choice")
done

say "running: apt-get install --no-install-recommends ${chosen[*]}"
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${chosen[@]}" </dev/null >/dev/null ||
  fail "apt-get could not install the packages (its message is above)"
say "installed: ${chosen[*]}"
