// Which instruction sets the processor has, and what HEED_TARGET leaves of them.

#include <algorithm>
#include <cstdlib>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "core/strings.h"
#include "heed/error.h"
#include "kernels/cpu/gemm_paths.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/targets.h"
#include "kernels/gemm.h"
#include "kernels/machine.h"

namespace heed::kernels {
namespace {

struct Target {
  const char* name;
  std::int64_t highway;  // with all lesser ones
  ByteProducts products = ByteProducts::base;
};

constexpr std::int64_t kPortable = HWY_SCALAR | HWY_EMU128;
#if defined(__aarch64__)
constexpr Target kTargets[] = {{"neon-i8mm", kPortable | HWY_NEON, ByteProducts::fours},
                               {"neon-dotprod", kPortable | HWY_NEON, ByteProducts::signed_fours},
                               {"neon", kPortable | HWY_NEON}};
#else
constexpr std::int64_t kAvx2 = kPortable | HWY_AVX2, kAvx512 = kAvx2 | HWY_AVX3;
constexpr Target kTargets[] = {{"amx", kAvx512, ByteProducts::tiles},
                               {"avx512-vnni", kAvx512, ByteProducts::fours},
                               {"avx512", kAvx512},
                               {"avx2-vnni", kAvx2, ByteProducts::fours},
                               {"avx2", kAvx2},
                               {"portable", kPortable}};
#endif

// Read before there are threads. Null: all that there is.
const char* const kWanted = std::getenv("HEED_TARGET");

const Target* find_target() {
  if (kWanted == nullptr || *kWanted == '\0') return nullptr;
  for (const Target& target : kTargets) {
    if (std::string(kWanted) == target.name) return &target;
  }
  return nullptr;
}
const Target* const kChosen = find_target();

// The best that the processor has for vectors of so many bits, besides tiles.
ByteProducts fours_of_processor([[maybe_unused]] std::int64_t bits) {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool is_long = bits == 512;  // AVX512-VNNI, else AVX-VNNI
  const bool has =
      __get_cpuid_count(7, is_long ? 0 : 1, &a, &b, &c, &d) != 0 && ((is_long ? c >> 11 : a >> 4) & 1) != 0;
  return has ? ByteProducts::fours : ByteProducts::base;
#elif defined(__aarch64__) && defined(__linux__)
  constexpr unsigned long kDotProduct = 1UL << 20, kInt8Matrix = 1UL << 13;
  if ((getauxval(AT_HWCAP2) & kInt8Matrix) != 0) return ByteProducts::fours;
  return (getauxval(AT_HWCAP) & kDotProduct) != 0 ? ByteProducts::signed_fours : ByteProducts::base;
#else
  return ByteProducts::base;
#endif
}
// Asked for once: in a virtual machine, cpuid takes microseconds.
const ByteProducts kShort = fours_of_processor(256), kLongest = fours_of_processor(512);

// Whether the processor has AMX's tiles with their products of bytes and bf16, and the system lets this
// process use them.
bool processor_has_amx() {
#if defined(__x86_64__) && defined(__linux__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  const bool has_tiles = (d >> 24 & 1) != 0 && (d >> 22 & 1) != 0 && (d >> 25 & 1) != 0,
             has_avx512 = (b >> 16 & 1) && (b >> 30 & 1);
  if (!has_tiles || !has_avx512 || __get_cpuid_count(7, 1, &a, &b, &c, &d) == 0 || (a >> 5 & 1) == 0)
    return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

ByteProducts allowed_products() { return kChosen == nullptr ? ByteProducts::tiles : kChosen->products; }

}  // namespace

std::int64_t detail::allowed_targets() {
#if defined(__aarch64__)
  return kPortable | HWY_NEON;  // on every processor; Highway wants AES with it, and warns where that lacks
#else
  return kChosen == nullptr ? hwy::SupportedTargets() : hwy::SupportedTargets() & kChosen->highway;
#endif
}
bool detail::has_amx() {
  static const bool has = allowed_products() == ByteProducts::tiles && processor_has_amx();
  return has;
}
ByteProducts detail::byte_products() {
  const std::int64_t bits = vector_bits();
  if (bits == 512 && has_amx()) return ByteProducts::tiles;
  return bits == 0 ? ByteProducts::base : std::min(bits == 512 ? kLongest : kShort, allowed_products());
}

// Without an instruction for four products, the scales of short groups take the time that products in 16 bits
// save; where sums of codes have no room in 16 bits, the vectors of AVX-512 save less than those of AVX2.
bool int8_is_faster(const PackedMatrix& w) {
  const std::int64_t bits = detail::vector_bits();
  if (!detail::takes_int8(w) || bits < 256) return false;
  const bool has_room = w.form()->largest_byte() < 64;
  return detail::byte_products() >= ByteProducts::fours ||
         w.form()->group >= (bits == 512 && !has_room ? 64 : 32);
}

std::string target_name() {
  const std::int64_t bits = detail::vector_bits();
  const ByteProducts products = detail::byte_products();
  std::string name = bits == 0 ? "portable" : bits == 128 ? "neon" : bits == 256 ? "avx2" : "avx512";
  if (products == ByteProducts::signed_fours) name += "-dotprod";
  if (products >= ByteProducts::fours) name += bits == 128 ? "-i8mm" : "-vnni";
  if (bf16_gemm_is_fast()) name = "amx";
  if (kWanted == nullptr || *kWanted == '\0' || kWanted == name) return name;
  if (kChosen == nullptr)
    throw Error("HEED_TARGET: expected one of " + joined(kTargets, ", ", &Target::name) + ", got " + kWanted);
#ifdef HWY_COMPILE_ONLY_STATIC
  throw Error(
      std::string("HEED_TARGET: expected none, as this heed was built for one instruction set, got ") +
      kWanted);
#else
  throw Error(std::string("HEED_TARGET: expected an instruction set of this processor, got ") + kWanted +
              " (the best of it at most is " + name + ")");
#endif
}

}  // namespace heed::kernels
