// Quantization of a model's linear maps to a few bits.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "heed/dtype.h"
#include "heed/export.h"

namespace HEED_API heed {

enum class QuantizeMethod {
  nearest,  ///< each number to the nearest code ("RTN")
  gptq,     ///< such that the results for calibration inputs change least (Frantar et al. 2022)
  awq,      ///< the same by scaling the columns of large inputs before they are rounded (Lin et al. 2023)
};

/// w = scale * code, a signed integer of `bits` bits. A group of numbers of a row of w [out, in] has one
/// scale. Token tables, heads of encoders, and maps whose rows are not whole groups are not quantized; the
/// output map only on request.
struct QuantizeOptions {
  int bits = 4;             ///< 4 or 8
  std::int64_t group = 64;  ///< a multiple of 32
  QuantizeMethod method = QuantizeMethod::nearest;
  DType scale_type = DType::f32;  ///< f16, bf16 or f32: as the other weights will be saved
  /// Bits of the output map [vocabulary, in]: 4 or 8; 0: not quantized. A map that is tied to the token table
  /// must have been separated (WeightOptions::separate_output).
  int output_bits = 0;
};

/// How the matrices of a GGUF file are stored: as numbers, or in blocks of 32 numbers of a row, with a scale
/// in f16; q4_1 also has an offset.
enum class GgufType { f32, f16, bf16, q8_0, q4_0, q4_1 };

/// The error of a quantized map.
struct QuantizedMap {
  std::string name;                         ///< of the weight
  double weight_error = 0;                  ///< |w - w'| / |w|; 0 where only its inputs were rounded
  std::optional<double> output_error = {};  ///< |x (w - w')^T| / |x w^T| for the calibration inputs x
  int bits = 0;                             ///< of its codes; 0 for a GGUF type, or if unchanged
};

/// The result of Model::quantize() or save_gguf().
struct QuantizeReport {
  std::vector<QuantizedMap> maps;
  std::vector<std::string> kept;  ///< maps that are not quantized, because their rows are not whole groups
};

}  // namespace heed
