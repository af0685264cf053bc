// Maps of each measure, and what the page shows beside them.
#pragma once

#include <string>
#include <vector>

#include "heed/analyses/attend.h"
#include "heed/inspect/record.h"

namespace heed::analyses {

/// Whether maps are drawn once and for all, over images and along time.
inline bool is_figure(const AttendOptions& options) {
  return options.form == AttendForm::terminal || options.form == AttendForm::figure;
}

/// Kinds of the texts of two towers.
bool is_text_kind(const std::string& kind);

/// The maps that options choose. Empty lists mean all.
struct MapChoice {
  std::vector<std::int64_t> layers = {}, heads = {};
  bool mean_of_heads = false, max_of_heads = false;
  bool has_layer(std::int64_t layer) const;
};
/// The chosen heads of `count`. Throws OptionError if one does not exist.
std::vector<std::int64_t> heads_of(const MapChoice& choice, std::int64_t count);

/// Labels of the positions of an encoder that reads an image or a sound: patches by row and column, frames by
/// their time, anything else by number.
std::vector<std::string> key_labels(std::int64_t keys, const Subject& subject, const InputSpec& spec);
/// Adds the image or spectrogram whose parts are `keys`; that of a recording is cut to what holds sound.
void add_image(AttentionPicture& picture, const Subject& subject, const Model& model, std::int64_t keys);
/// Labels the positions of kinds without labels with these.
void add_missing_tokens(Subject& subject, const AttentionRecord& record, const InputSpec& spec);

/// Adds the maps of `measure`. The rollout takes the record of all layers.
void add_measure(AttentionPicture& picture, const AttentionRecord& record, const MapChoice& choice,
                 const std::string& measure);
/// Adds the mean of the alignment heads of the record's layers: one map, whose name is that of the last
/// layer's part. Throws OptionError if there is none.
void add_alignment(AttentionPicture& picture, const AttentionRecord& record, const Subject& subject,
                   const std::string& measure);
/// Adds what the page shows beside the maps: norms of values, candidates, the image; and queries and keys.
void add_page_facts(AttentionPicture& picture, const AttentionRecord& record, const Subject& subject,
                    const ModelParts& model, std::int64_t most_vectors);

/// Whether logits are of tokens of the vocabulary, not of labels.
bool predicts_tokens(const Model& model);
/// The token or label that a logit is of.
std::string name_of(std::int64_t token, const ModelParts& model);

/// Lays figures of images and recordings over them, or along time. Throws OptionError for a patch or a frame
/// that does not exist.
AttentionPicture laid_out(AttentionPicture picture, const Subject& subject, const Model& model,
                          const AttendOptions& options);

}  // namespace heed::analyses
