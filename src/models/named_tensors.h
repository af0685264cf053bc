// The named inputs and outputs of forward(), as Hugging Face transformers calls them: checks of what comes
// in, listeners that collect what goes out.
#pragma once

#include <set>
#include <string>

#include "heed/models/model.h"
#include "heed/nn/stack.h"
#include "heed/ops/attention.h"

namespace heed {

/// Throws Error when there is no input of that name.
const Tensor& required_input(const TensorMap& inputs, const char* name);
/// An input of integers [batch, length] as i64, length at least 1. Throws Error for anything else.
Tensor ids_input(const Tensor& tensor, const char* name);
/// The same, undefined where the input is absent. Throws Error where it is not of the shape `expected`, if
/// that is given.
Tensor optional_ids(const TensorMap& inputs, const char* name, const Shape* expected);
/// Whether `shape` is [B, ...] with rows of the shape `row`, in which -1 is any size above 0.
bool has_rows(const Shape& shape, const Shape& row);
/// "[3, any, any]" of [3, -1, -1], "any number of samples" of [-1].
std::string row_text(const Shape& row);
/// The input of floating numbers [B, ...], B at least 1 and each row of the shape `row`, in which -1 is any
/// size, as f32. Throws Error for anything else.
Tensor floats_input(const TensorMap& inputs, const char* name, const Shape& row);
/// Throws Error for an id of `ids` (which may be undefined) outside [0, count).
void check_ids(const Tensor& ids, const char* name, std::int64_t count);
/// Throws Error for an input that is not among the known ones.
void refuse_unknown_inputs(const TensorMap& inputs, const std::set<std::string>& known);
/// input_ids and attention_mask. Throws Error unless the ids are below `vocab`, the mask has their shape, and
/// every other input is in `others`.
ModelInput token_inputs(const TensorMap& inputs, std::int64_t vocab, std::set<std::string> others);
/// The tensor of values that a frontend takes, and what belongs to it: attention_mask of a waveform's
/// samples, pixel_attention_mask and spatial_shapes (the grids) of patches. Throws Error unless they fit and
/// every other input is in `others`.
ModelInput values_input(const TensorMap& inputs, const InputSpec& spec, std::set<std::string> others);
/// The names of what values_input() reads.
std::set<std::string> value_names(const InputSpec& spec);
/// Attention options that let the keys be seen where `mask` [B, S] is not 0; all of them where it is
/// undefined.
AttentionOptions masked_keys(const Tensor& mask);

/// Collects the hidden states and attention weights of a forward pass, as far as the options ask for them.
class Collector {
 public:
  Collector(const Context& user, const ForwardOptions& options);
  Collector(const Collector&) = delete;
  /// Collects the input of the stack's first layer and the output of each as PREFIXhidden_states.0, 1, ...,
  /// the weights of self-attention as PREFIXattentions.0, ..., those of cross-attention as
  /// cross_attentions.0, ...
  void listen(const Stack& stack, const std::string& prefix);
  /// The same for `layers` layers whose taps begin with `stack`.
  void listen(const std::string& stack, std::size_t layers, const std::string& prefix);
  /// Collects the value of a tap under a name.
  void put(const std::string& tap, const std::string& name);
  /// Replaces the stack's last hidden state by that after its final norm.
  void replace_last(const Stack& stack, const std::string& prefix, const Tensor& hidden);
  /// Whether somebody does.
  bool wants_logits() const { return options_.logits || context.wants("logits"); }

  Context context;  ///< the user's, whose listeners are called first
  TensorMap outputs;

 private:
  ForwardOptions options_;
  Taps taps_;
};

}  // namespace heed
