// Records attention at checkpoints, and writes the page.
#include "cli/results/training_maps.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "cli/attend/attend.h"
#include "cli/input/input.h"
#include "cli/input/models.h"
#include "cli/terminal/terminal.h"
#include "files/input_file.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/models/registry.h"
#include "heed/text/tokenizer.h"
#include "inspect/token_input.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostTexts = 8, kMostTokens = 64;
constexpr std::size_t kPageBytes = 40'000'000;

AttentionPicture picture_of(const AttendText& text, const AttendSource& source, const fs::path& file) {
  const AttendInput input = text_input(text, source);
  for (const auto& [kind, tokens] : input.tokens) {
    if (std::max(tokens.queries.size(), tokens.keys.size()) > kMostTokens)
      throw Error(fmt::format("{}: expected texts of at most {} tokens, got one of {}: {}", file.string(),
                              kMostTokens, std::max(tokens.queries.size(), tokens.keys.size()), text.text));
  }
  const NoGradients guard;
  const AttentionRecord record = record_attention(
      source.model, input.tensors, {.kinds = attention_kinds(source.model), .value_norms = true});
  AttentionPicture picture;
  picture.title = input.title;
  for (const auto& [kind, tokens] : input.tokens)
    picture.tokens[kind] = {inspect::shown_tokens(tokens.queries, source.tokenizer),
                            inspect::shown_tokens(tokens.keys, source.tokenizer)};
  add_measure(picture, record, {}, "weights");
  add_page_facts(picture, record, input, source, 0);
  return picture;
}

// The steps that were recorded, in order.
std::map<std::int64_t, fs::path> recorded_steps(const fs::path& folder) {
  std::map<std::int64_t, fs::path> steps;
  if (!fs::exists(folder)) return steps;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    std::int64_t step = 0;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), step);
    if (failure == std::errc() && end == name.data() + name.size() && entry.path().extension() == ".json")
      steps.emplace(step, entry.path());
  }
  return steps;
}

}  // namespace

TrainingMaps::TrainingMaps(const fs::path& texts, fs::path output, const Globals& globals)
    : output_(std::move(output)), globals_(globals) {
  for (const std::string& line : read_lines(texts.string(), globals.quiet)) {
    if (line.empty()) continue;
    const std::size_t tab = line.find('\t');
    texts_.push_back(
        {line.substr(0, tab), tab == std::string::npos ? std::nullopt : std::optional(line.substr(tab + 1))});
  }
  if (texts_.empty() || texts_.size() > kMostTexts)
    throw Error(fmt::format("{}: expected 1 to {} texts, one a line, got {}", texts.string(), kMostTexts,
                            texts_.size()));
}

void TrainingMaps::record(std::int64_t step, const TrainingTask& task) {
  const fs::path folder = output_ / "maps";
  fs::create_directories(folder);
  AtomicDirectory model_folder(folder / "model");  // which never appears under this name
  task.save(model_folder.path(), DType::f32);
  const auto model = load_model(model_folder.path());
  const auto tokenizer = load_tokenizer(model_folder.path());
  const AttendSource source{*model, tokenizer.get(), model_folder.path(), globals_};
  const bool pairs = dynamic_cast<const EncoderDecoderModel*>(model.get()) != nullptr;
  std::vector<std::string> pictures;
  for (const Text& text : texts_) {
    if (pairs != text.target.has_value())
      throw Error(fmt::format("--maps: expected {} on each line for {}, got \"{}\"",
                              pairs ? "a source, a tab and a target" : "one text", kind_of(*model),
                              text.source));
    AttentionPicture picture = picture_of({text.source, {}, text.target, {}, {}}, source, output_);
    picture.model.name = fs::absolute(output_).lexically_normal().filename().string();
    pictures.push_back(attention_frame(picture));
  }
  for (const auto& [other, file] : recorded_steps(folder)) {
    if (other > step) fs::remove(file);
  }
  const auto loss = losses_.find(step);
  write_file(
      folder / fmt::format("{:08}.json", step),
      training_frame(step, loss == losses_.end() ? std::nullopt : std::optional(loss->second), pictures));
  write_page();
}

void TrainingMaps::write_page() const {
  std::vector<std::string> frames;
  std::size_t bytes = 0;
  for (const auto& [step, file] : recorded_steps(output_ / "maps")) {
    frames.push_back(read_file(file));
    bytes += frames.back().size();
  }
  while (bytes > kPageBytes && frames.size() > 2) {  // every second one, and the last
    std::vector<std::string> kept;
    bytes = 0;
    for (std::size_t i = 0; i < frames.size(); ++i) {
      if (i % 2 == 1 && i + 1 < frames.size()) continue;
      bytes += frames[i].size();
      kept.push_back(std::move(frames[i]));
    }
    frames = std::move(kept);
  }
  write_file(output_ / "maps.html", training_html(frames));
}

}  // namespace heed::cli
