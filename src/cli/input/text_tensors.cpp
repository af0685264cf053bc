// Combines encodings to tensors.
#include "cli/input/text_tensors.h"

#include <numeric>

#include "heed/io/json.h"
#include "heed/ops/loss.h"
#include "heed/tasks/batches.h"

namespace heed::cli {
namespace {

void add_tokens(TextTensors& texts, const std::string& name, std::span<const Encoding> encodings) {
  for (std::size_t i = 0; i < encodings.size(); ++i)
    texts.metadata[name + "." + std::to_string(i)] = JsonWriter().value(encodings[i].tokens).text();
}

}  // namespace

TextTensors side_by_side(std::span<const Encoding> encodings, std::int64_t pad_id, bool type_ids) {
  std::vector<std::size_t> all(encodings.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const ModelInput batch = padded_batch(encodings, all, pad_id, type_ids);
  TextTensors texts{{{"input_ids", batch.ids}, {"attention_mask", batch.mask}}, {{"format", "pt"}}};
  if (type_ids) texts.tensors["token_type_ids"] = batch.type_ids;
  add_tokens(texts, "tokens", encodings);
  return texts;
}

void add_targets(TextTensors& texts, std::span<const Encoding> targets, const EncoderDecoderModel& model) {
  std::vector<std::size_t> all(targets.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const ModelInput batch = padded_batch(targets, all, model.pad_id(), false);
  const Tensor labels = batch.ids.clone();
  const std::int64_t ignored = CrossEntropyOptions().ignore_index;
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    if (batch.mask.data<std::int64_t>()[i] == 0) labels.data<std::int64_t>()[i] = ignored;
  }
  texts.tensors["labels"] = labels;
  texts.tensors["decoder_input_ids"] = model.decoder_inputs(labels, ignored);
  add_tokens(texts, "target_tokens", targets);
}

}  // namespace heed::cli
