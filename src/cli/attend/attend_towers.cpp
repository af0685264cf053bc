// Models of texts and images for heed attend: what the image tower attends to in an image, and the text tower
// in each text.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/attend/attend.h"
#include "heed/ops/shape.h"
#include "inspect/token_input.h"

namespace heed::cli {
namespace {

constexpr const char* kText = "text";
constexpr const char* kPooling = "pooling";

// Of several texts, each has a kind of its own, as its tokens are others.
std::string numbered_kind(const std::string& kind, const std::string& between, std::size_t index,
                          std::size_t count) {
  return count > 1 ? fmt::format("{}{}{}", kind, between, index + 1) : kind;
}

}  // namespace

bool is_text_kind(const std::string& kind) { return kind.starts_with(kText); }

AttendInput towers_input(const std::string& file, const std::vector<std::string>& texts,
                         const DualEncoderModel& model, const AttendSource& source) {
  AttendInput input = image_input(file, source);
  const EncoderModel& tower = model.text();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::vector<std::int64_t> ids = inspect::tower_ids(tower, *source.tokenizer, texts[i]);
    if (ids.empty()) throw Error("--text: missing text (give one with at least one word)");
    if (const auto most = tower.max_positions(); most && std::ssize(ids) > *most) {
      throw Error(
          fmt::format("--text: expected at most {} tokens, got {} in \"{}\"", *most, ids.size(), texts[i]));
    }
    input.texts.push_back(inspect::one_row(ids));
    const std::vector<std::string> tokens = inspect::token_names(source.tokenizer, ids);
    input.tokens[numbered_kind(kText, " ", i, texts.size())] = {tokens, tokens};
    input.tokens[numbered_kind(kPooling, " for text ", i, texts.size())].queries = {"[probe]"};
    input.title += (i == 0 ? ": " : " / ") + texts[i];
  }
  input.tokens[kPooling].queries = {"[probe]"};
  return input;
}

AttentionRecord record_towers(const DualEncoderModel& model, const AttendInput& input,
                              RecordOptions options) {
  const auto is_text = [](const AttentionKind& kind) { return kind.name == kText; };
  if (input.texts.empty() || std::none_of(options.kinds.begin(), options.kinds.end(), is_text)) {
    std::erase_if(options.kinds, is_text);
    if (!options.gradient) return record_attention(model.image(), input.tensors, options);
  }
  AttentionRecord all;
  for (std::size_t i = 0; i < input.texts.size(); ++i) {
    TensorMap tensors = input.tensors;
    tensors["input_ids"] = input.texts[i];
    for (RecordedLayer& layer : record_attention(model, tensors, options).layers) {
      const bool text = layer.kind == kText;
      if (!text && i > 0 && !options.gradient) continue;  // the image is the same for all
      if (text) {
        layer.kind = numbered_kind(kText, " ", i, input.texts.size());
      } else if (options.gradient) {
        layer.kind = numbered_kind(layer.kind, " for text ", i, input.texts.size());
      }
      all.layers.push_back(std::move(layer));
    }
  }
  std::stable_partition(all.layers.begin(), all.layers.end(),
                        [](const RecordedLayer& layer) { return !is_text_kind(layer.kind); });
  return all;
}

void keep_last_queries(AttentionPicture& picture) {
  for (AttentionMap& map : picture.maps) {
    if (!is_text_kind(map.kind)) continue;
    map.weights.erase(map.weights.begin(), map.weights.end() - map.keys);
    map.queries = 1;
    if (map.measure != "rollout") map.measure += " in texts";  // a scale of their own
  }
  for (auto& [kind, tokens] : picture.tokens) {
    if (!is_text_kind(kind)) continue;
    tokens.queries = {tokens.queries.back()};
    picture.beside.push_back(kind);
  }
}

}  // namespace heed::cli
