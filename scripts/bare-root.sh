#!/usr/bin/env bash
# Runs a command in a bare Debian, in which this tree lies where it lies here:
#   scripts/bare-root.sh COMMAND [ARGUMENT...]      for example: scripts/bare-root.sh make test
# The root has Debian's essential packages, apt and make; the command must install whatever else it needs, as on a fresh
# machine. A package that scripts/install-deps.sh forgets is missed there, though this machine may have it. ccache is there too if
# it is here, with this machine's cache: it saves time, and no test uses it.
#
# The root is made by mmdebstrap from this machine's release and package sources, in build/bare-root, and used again until
# scripts/install-deps.sh changes. Exits with 77 and a reason where it cannot be made; else with the command's status.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -eq 0 ]; then echo "usage: scripts/bare-root.sh COMMAND [ARGUMENT...]" >&2; exit 2; fi
tree=$PWD root=$PWD/build/bare-root

cannot() { echo "bare-root: $*" >&2; exit 77; }
[ "$(id -u)" -eq 0 ] || cannot "no root rights"
command -v mmdebstrap >/dev/null || cannot "mmdebstrap not found (scripts/install-deps.sh --ci installs it)"
unshare --mount true 2>/dev/null || cannot "mounts of its own are not allowed here"
# shellcheck disable=SC1091
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")

# The packages of the release, from where this machine has them.
mapfile -t sources < <(grep -lE "^(deb|Suites:)(.*[[:space:]])?$release([[:space:]]|\$)" /etc/apt/sources.list \
  /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null)
[ ${#sources[@]} -gt 0 ] || cannot "no package source of $release in /etc/apt"

ccache=()
if command -v ccache >/dev/null; then ccache=(ccache); fi
state="$release ${ccache[*]} $(sha256sum <scripts/install-deps.sh)"
if [ "$(cat "$root/made-from" 2>/dev/null)" != "$state" ]; then
  echo "bare-root: making a root of $release"
  rm -rf "$root"
  mkdir -p build
  apt-config dump Acquire | grep -v '""' >build/bare-root.conf  # this machine's proxies and the like
  mmdebstrap --quiet --mode=root --variant=apt --include="make${ccache[*]:+,ccache}" --aptopt="$tree/build/bare-root.conf" \
    --dpkgopt=force-unsafe-io "$release" "$root" "${sources[@]}" || { rm -rf "$root"; cannot "mmdebstrap could not make it"; }
  echo "$state" >"$root/made-from"
fi
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"

# Nothing of this machine's environment but how to reach and compile; the locale is that of a new machine.
environment=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM="${TERM:-dumb}")
while IFS= read -r variable; do environment+=("$variable"); done < <(env | grep -E '^(CI|CXX|CCACHE_[A-Z]*|PIP_[A-Z_]*|(http|https|no)_proxy)=' || true)
if [ -f "${PIP_CERT:-}" ]; then  # the certificates by which this machine reaches PyPI
  cp -L "$PIP_CERT" "$root/etc/pip-certificates.crt"
  environment+=(PIP_CERT=/etc/pip-certificates.crt)
fi
if [ ${#ccache[@]} -gt 0 ]; then
  cache=$(ccache --get-config cache_dir)
  mkdir -p "$cache"
  environment+=("CCACHE_DIR=$cache")
fi

export tree root cache
# The mounts are seen by this command alone, and end with it.
exec unshare --mount --propagation private bash -euc '
  seen() { mkdir -p "$root$1" && mount --rbind "$1" "$root$1"; }
  for folder in /dev /proc /sys "$tree" ${cache:+"$cache"}; do seen "$folder"; done
  shared=$(dirname "$tree")/shared
  if [ -d "$shared" ]; then seen "$shared"; fi
  exec chroot "$root" /usr/bin/env -i "$@"' bare-root "${environment[@]}" sh -c 'cd "$0" && exec "$@"' "$tree" "$@"
