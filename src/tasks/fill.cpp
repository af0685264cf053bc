// Fills masks.
#include "heed/tasks/fill.h"

#include <algorithm>
#include <cmath>

#include "heed/error.h"
#include "heed/ops/shape.h"
#include "heed/text/tokenizer.h"
#include "tasks/scores.h"

namespace heed {
namespace {

std::vector<std::int64_t> mask_places(const Encoding& encoding, std::int64_t mask) {
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < encoding.size(); ++i) {
    if (encoding.ids[static_cast<std::size_t>(i)] == mask) places.push_back(i);
  }
  return places;
}

// Returns the candidates for the mask at position `place`.
std::vector<FillCandidate> candidates_for(const Tokenizer& tokenizer, const Encoding& encoding,
                                          std::int64_t place, std::span<const float> logits,
                                          std::size_t top_k, bool only_mask) {
  std::vector<double> scores = tasks::log_softmax(logits);
  // The vocabulary may be padded with rows that have no token.
  scores.resize(std::min(scores.size(), static_cast<std::size_t>(tokenizer.vocab_size())));
  std::vector<FillCandidate> candidates;
  std::vector<std::int64_t> ids = encoding.ids;
  for (const std::size_t best : tasks::largest(scores, top_k)) {
    const auto id = static_cast<std::int64_t>(best);
    ids[static_cast<std::size_t>(place)] = id;
    candidates.push_back({id, tokenizer.decode_clean(std::vector<std::int64_t>{id}, false),
                          std::exp(scores[best]), scores[best], tokenizer.decode_clean(ids, only_mask)});
  }
  return candidates;
}

}  // namespace

std::vector<FilledText> fill_masks(const EncoderModel& model, const Tokenizer& tokenizer,
                                   std::span<const std::string> texts, std::int64_t top_k,
                                   const TaskOptions& options) {
  tasks::require_head(model, EncoderHead::masked_lm, "fill");
  const std::optional<std::int64_t> mask = tokenizer.mask_id();
  if (!mask) throw Error("fill: expected a tokenizer with a mask token, got one without");
  const std::int64_t longest = longest_input(model, tokenizer);
  std::vector<Encoding> encodings;
  std::vector<std::vector<std::int64_t>> places;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    encodings.push_back(encode_cut(tokenizer, {texts[i]}, longest, options, i));
    places.push_back(mask_places(encodings.back(), *mask));
    if (places.back().empty()) {
      options.fail(
          "fill", i,
          "no " + tokenizer.token(*mask) + " in the text" +
              (encodings.back().size() == longest ? "'s first " + std::to_string(longest) + " tokens" : "") +
              " (put it where a word is to be filled in)");
    }
  }
  std::vector<FilledText> filled(texts.size());
  encode_batches(model, encodings, options, [&](std::span<const std::size_t> chosen, const Tensor& hidden) {
    std::vector<std::int64_t> rows;
    for (std::size_t b = 0; b < chosen.size(); ++b) {
      for (const std::int64_t place : places[chosen[b]])
        rows.push_back(static_cast<std::int64_t>(b) * hidden.size(1) + place);
    }
    const Tensor flat = reshape(hidden, {hidden.size(0) * hidden.size(1), hidden.size(2)});
    if (rows.empty()) return;  // all texts were refused
    Context context;
    const Tensor index = Tensor::from(rows, {static_cast<std::int64_t>(rows.size())});
    const std::vector<float> logits =
        model.predict(gather(flat, 0, index), {}, context).to_vector<float>();  // [masks, V]
    const std::size_t width = logits.size() / rows.size();
    std::size_t at = 0;
    for (const std::size_t text : chosen) {
      for (const std::int64_t place : places[text]) {
        filled[text].push_back(candidates_for(tokenizer, encodings[text], place,
                                              std::span(logits).subspan(width * at++, width),
                                              static_cast<std::size_t>(top_k), places[text].size() == 1));
      }
    }
  });
  return filled;
}

}  // namespace heed
