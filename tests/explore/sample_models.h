// Models of the fixtures whose texts are numbers: "5 6 7" is the ids 5, 6 and 7.
#pragma once

#include <atomic>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>

#include "explore/routes.h"
#include "heed/error.h"
#include "heed/models/registry.h"

namespace heed::explore_test {

inline const std::filesystem::path kFixtures = HEED_FIXTURES;
inline const std::atomic<bool> kGoOn{false};

/// Puts 2 before a text and 3 after each, where `specials`.
class NumberTokenizer : public Tokenizer {
 public:
  explicit NumberTokenizer(bool specials, std::optional<std::int64_t> mask = std::nullopt)
      : specials_(specials), mask_(mask) {}
  std::string decode(std::span<const std::int64_t> ids, bool) const override {
    std::string text;
    for (const std::int64_t id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
    return text;
  }
  std::int64_t vocab_size() const override { return 500; }
  std::string token(std::int64_t id) const override {
    if (id < 0 || id >= vocab_size()) throw Error("no token");
    return "t" + std::to_string(id);
  }
  std::optional<std::int64_t> token_to_id(std::string_view) const override { return std::nullopt; }
  bool is_special(std::int64_t) const override { return false; }
  std::optional<std::int64_t> mask_id() const override { return mask_; }
  void save(const std::filesystem::path&) const override {}

 protected:
  Encoding tokenize(std::string_view text) const override {
    std::istringstream words{std::string(text)};
    Encoding encoding;
    for (std::int64_t id; words >> id;) encoding.push(id, std::to_string(id), {0, 0});
    return encoding;
  }
  Encoding post_process(Encoding first, std::optional<Encoding> second, bool add) const override {
    if (!specials_ || !add) return first;
    Encoding all;
    all.push_special(2, "2");
    all.append(first);
    all.push_special(3, "3");
    if (!second) return all;
    all.append(*second);
    all.push_special(3, "3", 1);
    return all;
  }

 private:
  bool specials_;
  std::optional<std::int64_t> mask_;
};

inline explore::ExploredModel sample(const std::string& fixture, bool specials = false,
                                     std::optional<std::int64_t> mask = std::nullopt) {
  return {fixture, load_model(kFixtures / fixture), std::make_unique<NumberTokenizer>(specials, mask),
          load_generation_options(kFixtures / fixture)};
}

/// A model of images or sounds; `writes`, or compares with labels: with its own tokenizer.
inline explore::ExploredModel sample_of_files(const std::string& fixture, bool writes = false) {
  auto model = load_model(kFixtures / fixture);
  tasks::FileProcessor processor =
      tasks::load_file_processor(model->input(), model_files(kFixtures / fixture));
  if (!writes) return {fixture, std::move(model), nullptr, {}, std::move(processor)};
  return {fixture, std::move(model), load_tokenizer(kFixtures / fixture),
          load_generation_options(kFixtures / fixture), std::move(processor)};
}

inline explore::ExploredModel sample_decoder() { return sample("decoders/gpt2"); }
inline explore::ExploredModel sample_encoder_decoder() { return sample("marian"); }

template <class... Models>
explore::Explorer explorer_of(Models... models) {
  std::vector<explore::ExploredModel> list;
  (list.push_back(std::move(models)), ...);
  return explore::Explorer(std::move(list));
}

}  // namespace heed::explore_test
