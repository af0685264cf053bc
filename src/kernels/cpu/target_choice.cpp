#include "kernels/cpu/target_choice.h"

#include <cstdlib>
#include <string>

#include "heed/error.h"
#include "kernels/cpu/gemm_paths.h"
#include "kernels/cpu/targets.h"
#include "kernels/gemm.h"
#include "kernels/machine.h"

namespace heed::kernels {
namespace {

struct Target {
  const char* name;
  std::int64_t highway;  // with all lesser ones
  ByteProducts products = ByteProducts::base;
  bool amx = false;
};

constexpr std::int64_t kPortable = HWY_SCALAR | HWY_EMU128;
#if defined(__aarch64__)
constexpr Target kTargets[] = {{"neon-i8mm", kPortable | HWY_NEON, ByteProducts::fours},
                               {"neon-dotprod", kPortable | HWY_NEON, ByteProducts::signed_fours},
                               {"neon", kPortable | HWY_NEON}};
#else
constexpr std::int64_t kAvx2 = kPortable | HWY_AVX2, kAvx512 = kAvx2 | HWY_AVX3;
constexpr Target kTargets[] = {{"amx", kAvx512, ByteProducts::fours, true},
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

}  // namespace

std::int64_t detail::allowed_targets() {
#if defined(__aarch64__)
  return kPortable | HWY_NEON;  // on every processor; Highway wants AES with it, and warns where that lacks
#else
  return kChosen == nullptr ? hwy::SupportedTargets() : hwy::SupportedTargets() & kChosen->highway;
#endif
}
ByteProducts detail::allowed_products() {
  return kChosen == nullptr ? ByteProducts::fours : kChosen->products;
}
bool detail::allows_amx() { return kChosen == nullptr || kChosen->amx; }

std::string target_name() {
  const std::int64_t bits = detail::vector_bits();
  const ByteProducts products = detail::byte_products();
  std::string name = bits == 0 ? "portable" : bits == 128 ? "neon" : bits == 256 ? "avx2" : "avx512";
  if (products == ByteProducts::signed_fours) name += "-dotprod";
  if (products == ByteProducts::fours) name += bits == 128 ? "-i8mm" : "-vnni";
  if (bf16_gemm_is_fast()) name = "amx";
  if (kWanted == nullptr || *kWanted == '\0' || kWanted == name) return name;
  if (kChosen == nullptr) {
    std::string names;
    for (const Target& target : kTargets) names += (names.empty() ? "" : ", ") + std::string(target.name);
    throw Error("HEED_TARGET: expected one of " + names + ", got " + kWanted);
  }
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
