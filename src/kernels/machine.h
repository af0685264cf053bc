// What the machine can do at most, measured: the limits that speed is compared with.
#pragma once

#include <cstdint>
#include <string>

namespace heed::kernels {

class PackedMatrix;

/// The instruction set that kernels use, the best that the processor has unless HEED_TARGET names a lesser
/// one: amx (AVX-512 with tiles of bytes and bf16), avx512-vnni, avx512, avx2-vnni, avx2 or portable; on ARM
/// neon-i8mm, neon-dotprod or neon. Throws Error if HEED_TARGET names none of these or one that the processor
/// does not have, or if heed was built for one instruction set and it names another.
std::string target_name();

/// Floating-point operations per second of all threads together when they fuse multiplications and additions
/// (two operations each) in registers, with nothing to load and nothing to wait for. Takes about `seconds`.
template <class T>
double arithmetic_rate(double seconds);

/// The same of products of bytes (int8_gemm), with int8_instruction(); 0 where there is none.
double int8_rate(double seconds);
/// tdpbsud (AMX), vpdpbusd (VNNI), vpmaddubsw (sums of 16 bits); usdot, sdot or smull on ARM; or none.
const char* int8_instruction();
/// Whether products of many rows of x with a matrix are faster on this processor where x is rounded
/// (InvariantGemm::int8), as measured (docs/performance.md); false where that is not known, as on ARM.
bool int8_is_faster(const PackedMatrix& w);

/// Bytes per second at which all threads together read `bytes` bytes from `data`, once.
double read_rate(const void* data, std::int64_t bytes);

}  // namespace heed::kernels
