#!/usr/bin/env bash
# Runs a program of this machine on a processor with AMX (Intel's Sapphire Rapids), which Bochs emulates, and prints what it
# prints; the exit status is the program's:
#   scripts/amx.sh BOCHS PROGRAM [ARGUMENT...]      for example: scripts/amx.sh ~/bochs build/debug/heed_kernels_test
# BOCHS is a folder with the source of Bochs, newer than 3.0, itself or in a folder `bochs`; it is built there at the first use.
# The emulated machine has one processor, this Debian's kernel, which is downloaded, and of files the program, its libraries
# and what the tests of kernels read. HEED_TARGET is passed on. How long anything takes says nothing of a real processor.
#
# Needs Debian's packages busybox-static, isolinux, syslinux-common and xorriso.
set -euo pipefail
fail() { echo "amx: error: $*" >&2; exit 1; }
[ $# -ge 2 ] || fail "expected BOCHS PROGRAM [ARGUMENT...]"
cd "$(dirname "$0")/.."
root=$PWD
cd "$OLDPWD"
bochs=$(realpath "$1") program=$(realpath "$2") folder=$root/build/amx
shift 2

# What Bochs of August 2026 lacks. Against Intel's manual it takes signed bytes of tiles for unsigned ones, and vcvtne2ps2bf16
# reads beyond the second of its vectors. And Linux uses tiles only if the processor can trap their first use (XFD).
complete_bochs() (
  export LC_ALL=C
  cd "$bochs/cpu"
  sed -i 's/Bit32s(\([xy]byte\)/Bit8s(\1/g' avx/amx.cc
  sed -i '/other half of the elements/,/}/s/op1.vmm32u(n)/op1.vmm32u(n - DWORD_ELEMENTS(len))/' avx/avx512_bf16.cc
  if grep -q BX_MSR_IA32_XFD msr.cc; then return 0; fi
  sed -i -e '/^    set_amx_ok();/a\
  extern Bit64u bx_xfd;\
  if (bx_xfd & BX_XCR0_XTILEDATA_MASK) clear_amx_ok();' \
    -e '/::BxNoAMX(/,/BX_ASSERT/{/BX_ASSERT/i\
  extern Bit64u bx_xfd, bx_xfd_error;\
  if (bx_xfd & BX_XCR0_XTILEDATA_MASK) {\
    bx_xfd_error = BX_XCR0_XTILEDATA_MASK;\
    exception(BX_NM_EXCEPTION, 0);\
  }
}' proc_ctrl.cc
  sed -i -e '/^#define LOG_THIS/a\
Bit64u bx_xfd = 0, bx_xfd_error = 0;' \
    -e '/msr_desc\[BX_MSR_XSS\] =/i\
  msr_desc[BX_MSR_IA32_XFD] = new MSR_Descriptor("MSR_IA32_XFD", BX_ISA_AMX);\
  msr_desc[BX_MSR_IA32_XFD_ERROR] = new MSR_Descriptor("MSR_IA32_XFD_ERR", BX_ISA_AMX);' \
    -e '/case BX_MSR_XSS:$/i\
    case BX_MSR_IA32_XFD: val64 = bx_xfd; break;\
    case BX_MSR_IA32_XFD_ERROR: val64 = bx_xfd_error; break;' \
    -e '/case BX_MSR_XSS: /i\
    case BX_MSR_IA32_XFD: bx_xfd = val_64; handleAvxModeChange(); break;\
    case BX_MSR_IA32_XFD_ERROR: bx_xfd_error = val_64; break;' msr.cc
  sed -i -e '/EBX.31:00. - The size .* of the XSAVE area/i\
    if (is_cpu_extension_supported(BX_ISA_AMX)) leaf->eax |= 1 << 4;' \
    -e '/leaf->ecx = xsave_restore\[subfunction\].attr;/a\
      if (subfunction == xcr0_t::BX_XCR0_XTILEDATA_BIT) leaf->ecx |= BX_XSAVE_XFD_SUPPORT;' cpuid.cc
)
[ ! -d "$bochs/bochs" ] || bochs=$bochs/bochs
if [ ! -x "$bochs/bochs" ]; then
  [ -e "$bochs/cpu/avx/amx.cc" ] || fail "$bochs: expected the source of Bochs, newer than 3.0"
  complete_bochs
  (cd "$bochs" && ./configure --enable-cpu-level=6 --enable-x86-64 --enable-long-phy-address --enable-avx --enable-evex \
    --enable-amx --enable-all-optimizations --enable-handlers-chaining --with-nogui --disable-docbook >/dev/null &&
    make -j"$(nproc)" >/dev/null)
fi

loader=/usr/lib/ISOLINUX/isolinux.bin modules=/usr/lib/syslinux/modules/bios
for file in "$loader" "$modules/ldlinux.c32" /usr/bin/busybox /usr/bin/xorriso; do
  [ -e "$file" ] || fail "$file is missing (apt-get install busybox-static isolinux syslinux-common xorriso)"
done
rm -rf "$folder/files" "$folder/image"
mkdir -p "$folder/files"/{bin,proc,dev,tmp} "$folder/image" "$folder/kernel"
cd "$folder"

if ! ls kernel/boot/vmlinuz-* >/dev/null 2>&1; then
  package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p' | head -1)
  apt-get download -qq "$package" || fail "apt-get could not download $package"
  dpkg-deb -x "$package"_*.deb kernel
  rm "$package"_*.deb
fi

cp /usr/bin/busybox files/bin/
cp "$program" files/program
ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
  mkdir -p "files$(dirname "$library")"
  cp -L "$library" "files$library"
done
mkdir -p "files$root/tests/fixtures"
cp -r "$root/tests/fixtures/blocks" "files$root/tests/fixtures/"
{
  echo '#!/bin/busybox sh'
  echo 'b=/bin/busybox; $b mount -t proc proc /proc; $b mount -t devtmpfs dev /dev; $b mount -t tmpfs tmp /tmp'
  printf 'cd /tmp; exec >/dev/ttyS0 2>&1; HEED_TARGET=%q /program' "${HEED_TARGET:-}"
  [ $# -eq 0 ] || printf ' %q' "$@"
  printf '\necho "exit status $?"; $b sleep 2; $b poweroff -f\n'
} >files/init
chmod +x files/init
(cd files && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1 >../image/initrd)
cp kernel/boot/vmlinuz-* image/linux
cp "$loader" "$modules/ldlinux.c32" image/
# 580: fast short copies, which this kernel does not use rightly without fast long ones, and Bochs has none of these.
cat >image/isolinux.cfg <<'TEXT'
default test
label test
  kernel linux
  append initrd=initrd console=ttyS0 quiet mitigations=off clearcpuid=580
TEXT
xorriso -as mkisofs -quiet -o image.iso -b isolinux.bin -c boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table \
  image 2>/dev/null
cat >machine <<TEXT
cpu: model=sapphire_rapids, count=1, ips=20000000
megs: 1024
romimage: file=$bochs/bios/BIOS-bochs-latest
vgaromimage: file=$bochs/bios/VGABIOS-lgpl/VGABIOS-lgpl-latest.bin
ata0-master: type=cdrom, path=image.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=output
display_library: nogui
log: bochs.log
panic: action=fatal
TEXT
"$bochs/bochs" -q -f machine >/dev/null 2>&1 || true  # it ends with 1 when the machine is switched off
sed '/^exit status [0-9]*\r$/,$d' output
status=$(sed -n 's/^exit status \([0-9]*\)\r$/\1/p' output)
[ -n "$status" ] || fail "the machine did not come to the program's end ($folder/output, $folder/bochs.log)"
exit "$status"
