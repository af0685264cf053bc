// The attention of one subject as a picture: which kinds, layers, heads and positions, by which measure, and
// what is laid over an image or along the time of a recording.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heed/analyses/analyzed.h"
#include "heed/export.h"
#include "heed/inspect/ablation.h"
#include "heed/open/subject.h"
#include "heed/plot/picture.h"

namespace HEED_API heed {

/// Where the picture goes. A page and numbers have whole maps; in the terminal and in figures, those of
/// images and recordings are laid over them.
enum class AttendForm : std::uint8_t { terminal, figure, page, numbers };

enum class AttendHeads : std::uint8_t {
  /// All; in the terminal, and of a caption over its image, their mean; of a Whisper in the terminal and in
  /// figures, the alignment heads.
  usual,
  all,  ///< or those of AttendOptions::chosen_heads
  mean,
  max,
  alignment  ///< the mean of the heads of a Whisper that follow the time
};

struct AttendOptions {
  AttendForm form = AttendForm::page;
  /// Of AttentionKind, or `self`; by default cross-attention where the model has it, else self-attention; on
  /// a page all.
  std::string kind = {};
  /// An empty list means all; nullopt too, but of a caption over its image the last.
  std::optional<std::vector<std::int64_t>> layers = {};
  AttendHeads heads = AttendHeads::usual;
  std::vector<std::int64_t> chosen_heads = {};  ///< empty: all
  std::string queries = {}, keys = {};          ///< positions, `10:20`, `10:`, `:20` or `7`; empty: all
  /// `weights`, `norms`, `rollout`, `gradient`; by default weights, and on a page the rollout.
  std::vector<std::string> show = {};
  /// What attends over an image: row and column; empty: the class token, or the mean of all patches.
  std::vector<std::int64_t> patch = {};
  std::optional<double> time = {};        ///< the same of the frames of a recording, in seconds
  std::int64_t most_vectors = 1'200'000;  ///< numbers of queries and keys beyond which a page has none
  TokenChoice token = {};                 ///< whose logit the gradient is of
  std::optional<std::int64_t> position = {};
  /// Whether the picture says what the absence of each head changes; by default, on a page where it is cheap.
  std::optional<bool> ablate = {};
  std::string remove = {};  ///< as components_named(): without which the attention is recorded
  Replacement replacement = Replacement::zero;
  std::vector<TensorMap> reference = {};  ///< of mean and resample; empty: the subject
  std::uint64_t seed = 0;
  AnalysisProgress progress = {};  ///< of the ablations

  bool all_positions() const { return queries.empty() && keys.empty(); }
  /// `queries 3:8, keys :4`
  std::string range_text() const;
};

struct AttendedSubject {
  AttentionPicture picture;  ///< without the model's name
  bool finite = true;        ///< whether all weights and logits are
};
/// Of a subject of subject_of() or subject_of_tensors(). Throws OptionError for what the model or the subject
/// does not have, Error for a gradient or ablation of a model without logits.
AttendedSubject attend(const ModelParts& model, Subject subject, const AttendOptions& options);

}  // namespace heed
