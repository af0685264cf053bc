// What the machine can do at most, measured: the limits that speed is compared with.
#pragma once

#include <cstdint>

namespace heed::kernels {

/// Floating-point operations per second of all threads together when they fuse multiplications and additions
/// (two operations each) in registers, with nothing to load and nothing to wait for. Takes about `seconds`.
template <class T>
double arithmetic_rate(double seconds);

/// Bytes per second at which all threads together read `bytes` bytes from `data`, once.
double read_rate(const void* data, std::int64_t bytes);

}  // namespace heed::kernels
