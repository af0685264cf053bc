// Circuits: what the heads of a model can do, computed from its weights without running it on text (Elhage et
// al. 2021, "A mathematical framework for transformer circuits").
//
// A head h reads the stream x by W_Q, W_K, W_V [d, D] and writes by W_O [D, d]. Its QK circuit is the matrix
// W_Q^T W_K [D, D]: query times key before the scale. Its OV circuit W_O W_V [D, D] is what it writes when it
// attends to a token. The matrices include the linear parts of norms (the weight, and the mean that LayerNorm
// subtracts) before and after the attention and of queries and keys; also multipliers and LayerScale. They do
// not include biases, the deviations that norms divide by, and rotations. Quantized weights are dequantized;
// adapters are added.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/models/model.h"

namespace HEED_API heed {

struct HeadIndex {
  std::int64_t layer = 0, head = 0;
  bool operator==(const HeadIndex&) const = default;
};

struct HeadCircuit {
  HeadIndex head;
  /// Singular values of the OV and the QK circuit, largest first; min(d, D) each.
  std::vector<double> ov = {}, qk = {};
  /// sum(Re lambda) / sum(|lambda|) over the eigenvalues lambda of the full OV circuit W_U W_O W_V W_E [V,
  /// V]: near 1, a head raises the logits of the tokens that it attends to. No value for a stack without
  /// token embeddings and logits.
  std::optional<double> copying = {};
  /// Positional attention, independent of content: the head attends to the token `offset` before the query
  /// (negative: after it), with the mean weight `at_offset`. For this, every token is the mean of all tokens
  /// at its position, and each layer reads it as the first layer does. The mean is over the middle half of 64
  /// positions (or as many as there are), for offsets up to a quarter of them. No value for fewer than 8
  /// positions.
  std::optional<std::int64_t> offset = {};
  double at_offset = 0;
  bool biased = false;   ///< queries, keys, values or norms before them have a bias, left out of the matrices
  bool rotated = false;  ///< queries and keys are rotated: the QK circuit is that at offset 0
};

enum class CompositionKind : std::uint8_t { query, key, value };

/// Composition: how much of the output of `from` a later head reads in its queries, keys or values: ||W_QK^T
/// W_OV|| / (||W_QK|| ||W_OV||), ||W_QK W_OV|| / (||W_QK|| ||W_OV||) and ||W_OV' W_OV|| / (||W_OV'||
/// ||W_OV||), with Frobenius norms, the circuits of `to` and the OV circuit of `from`. For random directions
/// it is 1 / sqrt(D), the root of the expected square.
struct Composition {
  CompositionKind kind = CompositionKind::query;
  HeadIndex from, to;
  double score = 0;
};

struct CircuitOptions {
  std::string stack = "decoder";          ///< the stack whose self-attention is analyzed
  bool compositions = true;               ///< of all pairs of heads in different layers
  std::optional<HeadIndex> of_head = {};  ///< compositions of this head only
  /// W_U of copying scores has the linear part of the final norm folded in, as TransformerLens does
  /// (`fold_ln`). False: it is the matrix of the file.
  bool fold_final_norm = true;
  /// Counts layers, then the stream's dims of the compositions.
  std::function<void(std::int64_t done, std::int64_t total, const char* what)> progress = {};
};

struct Circuits {
  std::vector<HeadCircuit> heads;         ///< by layer and head
  std::vector<Composition> compositions;  ///< largest score first
  double baseline = 0;                    ///< 1 / sqrt(D)
};

/// Throws Error if the stack does not exist or has no softmax self-attention, or if the head does not exist.
Circuits weight_circuits(const Model& model, const CircuitOptions& options);

/// One singular direction of an OV circuit: a head that attends to tokens with a large score in `reads`
/// raises the logits of those with a large score in `writes`. The sign makes the score of largest magnitude
/// in `reads` positive.
struct TokenScore {
  std::int64_t id = 0;
  double score = 0;
};
struct CircuitDirection {
  double value = 0;                       ///< the singular value
  std::vector<TokenScore> reads, writes;  ///< largest score first: of W_E v and W_U u
};

/// The `count` largest directions of a head's OV circuit with `top` tokens each; W_U has the final norm
/// folded in. Throws Error as weight_circuits(), and for a stack without token embeddings and logits.
std::vector<CircuitDirection> circuit_directions(const Model& model, const std::string& stack, HeadIndex head,
                                                 std::int64_t count, std::int64_t top);

}  // namespace heed
