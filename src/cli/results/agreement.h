// How what a model computes of texts agrees with what it computed before it was changed.
#pragma once

#include <string>
#include <vector>

#include "heed/io/json.h"
#include "heed/open/loaded_model.h"
#include "heed/tensor.h"

namespace heed::cli {

/// What heed embed and, of a classifier, heed classify give for texts.
class TextResults {
 public:
  TextResults(const LoadedModel& model, const std::vector<std::string>& texts);
  /// Writes how `others` of the same texts agree, as a JSON object or a line of text.
  void write_agreement(const TextResults& others, JsonWriter& json) const;
  std::string agreement_text(const TextResults& others) const;

 private:
  struct Agreement {
    double mean = 0, least = 1, labels = 0;  // cosines, and the part of equal labels
  };
  Agreement agreement(const TextResults& others) const;

  Tensor vectors_;
  std::vector<std::size_t> labels_;  // empty: the model gives none
};

}  // namespace heed::cli
