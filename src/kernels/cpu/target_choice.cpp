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
  bool vnni, amx;
};

constexpr std::int64_t kPortable = HWY_SCALAR | HWY_EMU128, kAvx2 = kPortable | HWY_AVX2,
                       kAvx512 = kAvx2 | HWY_AVX3;
constexpr Target kTargets[] = {{"amx", kAvx512, true, true},      {"avx512-vnni", kAvx512, true, false},
                               {"avx512", kAvx512, false, false}, {"avx2-vnni", kAvx2, true, false},
                               {"avx2", kAvx2, false, false},     {"portable", kPortable, false, false}};

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
  return kChosen == nullptr ? hwy::SupportedTargets() : hwy::SupportedTargets() & kChosen->highway;
}
bool detail::allows_vnni() { return kChosen == nullptr || kChosen->vnni; }
bool detail::allows_amx() { return kChosen == nullptr || kChosen->amx; }

std::string target_name() {
  const std::int64_t bits = detail::vector_bits();
  std::string name = "portable";
  if (bits > 0) name = std::string(bits == 512 ? "avx512" : "avx2") + (detail::has_vnni() ? "-vnni" : "");
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
