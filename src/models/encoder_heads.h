// The heads of encoders: the rows and parts of the maps after the last hidden state. A family names its
// tensors and settings in an EncoderHeads; how a head is made of them is the same for all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/encoder.h"

namespace heed {

/// One head by the names of its tensors: output(dropout(norm(activation(dense(first_dropout(x)))))). A head
/// without dense map or norm has no name for it.
struct HeadMaps {
  double first_dropout = 0.0;
  std::string dense = "";
  Activation activation = Activation::none;
  std::string norm = "";
  double dropout = 0.0;
  std::string output = "";
};

struct EncoderHeads {
  std::string prefix;            ///< of the names of the body below a head; those of a bare model have none
  std::string words;             ///< the word embedding, below a head
  HeadMaps masked_lm = {};       ///< its output map may be tied to the word embedding
  std::string output_bias = "";  ///< of masked_lm, where it is not `output`.bias; see add_vocabulary_head
  HeadMaps sequence = {};
  HeadMaps token = {.output = "classifier"};
  HeadMaps span = {.output = "qa_outputs"};
  bool dense_bias = true, norm_bias = true, output_has_bias = true;
  std::vector<std::string> unused = {};  ///< other maps that files may have and that are not read

  const HeadMaps& of(EncoderHead head) const;
};

/// The prefix of the body's names: `prefix` below a head, else nothing.
std::string body_prefix(const EncoderConfig& config, const std::string& prefix);

/// Ends the body: the rows of the config's head come next (a dense map that the body has, a pooler, is not
/// added again), and every name of the other heads is ignored in files.
void add_head(TensorTable& table, const EncoderConfig& config, const EncoderHeads& heads);

/// The parts of the config's head; none for a bare model.
std::optional<EncoderHeadParts> head_parts(const EncoderConfig& config, const Weights& weights,
                                           const EncoderHeads& heads);

}  // namespace heed
