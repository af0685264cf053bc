// Prints results of generation as JSON and as text.
#include "cli/hypotheses.h"

#include <fmt/core.h>

#include "cli/terminal.h"
#include "heed/io/json.h"

namespace heed::cli {
namespace {

struct Written {
  const std::vector<Hypothesis>& hypotheses;
  const std::vector<std::optional<std::string>>& texts;
  const std::vector<std::string>& full_texts;  // empty: not requested
  bool beams;
};

void write_hypothesis(JsonWriter& json, const Written& all, std::size_t i) {
  const Hypothesis& h = all.hypotheses[i];
  json.field("ids", h.ids).field("text", all.texts[i]);
  if (!all.full_texts.empty()) json.field("full_text", all.full_texts[i]);
  json.field("score", all.beams ? h.beam_score : h.score).field("log_probability", h.score);
}

}  // namespace

void print_json(const std::vector<Hypothesis>& hypotheses,
                const std::vector<std::optional<std::string>>& texts, const GenerationOptions& options,
                const std::vector<std::string>& full_texts) {
  const Written all{hypotheses, texts, full_texts, options.num_beams > 1};
  JsonWriter json;
  json.begin_object();
  write_hypothesis(json, all, 0);
  if (options.num_return_sequences > 1) {
    json.key("sequences").begin_array();
    for (std::size_t i = 0; i < hypotheses.size(); ++i) {
      json.begin_object();
      write_hypothesis(json, all, i);
      json.end_object();
    }
    json.end_array();
  }
  if (options.do_sample) json.field("seed", options.seed);
  fmt::print("{}\n", json.end_object().text());
}

void print_text(std::size_t index, const std::vector<std::optional<std::string>>& texts,
                const std::vector<Hypothesis>& hypotheses, const GenerationOptions& options) {
  if (options.num_return_sequences <= 1) {
    fmt::print("{}\n", safe_for_stdout(*texts.front()));
    return;
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    fmt::print("{} ||| {} ||| {:.4f}\n", index, safe_for_stdout(*texts[i]),
               options.num_beams > 1 ? hypotheses[i].beam_score : hypotheses[i].score);
  }
}

}  // namespace heed::cli
