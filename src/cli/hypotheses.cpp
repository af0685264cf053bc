// Results of generation as JSON and as text.
#include "cli/hypotheses.h"

#include <fmt/core.h>

#include "heed/io/json.h"

namespace heed::cli {
namespace {

void write_hypothesis(JsonWriter& json, const Hypothesis& h, const std::optional<std::string>& text,
                      bool beams) {
  json.field("ids", h.ids).field("text", text).field("score", beams ? h.beam_score : h.score);
  json.field("log_probability", h.score);
}

}  // namespace

void print_json(const std::vector<Hypothesis>& hypotheses,
                const std::vector<std::optional<std::string>>& texts, const GenerationOptions& options) {
  const bool beams = options.num_beams > 1;
  JsonWriter json;
  json.begin_object();
  write_hypothesis(json, hypotheses.front(), texts.front(), beams);
  if (options.num_return_sequences > 1) {
    json.key("sequences").begin_array();
    for (std::size_t i = 0; i < hypotheses.size(); ++i) {
      json.begin_object();
      write_hypothesis(json, hypotheses[i], texts[i], beams);
      json.end_object();
    }
    json.end_array();
  }
  fmt::print("{}\n", json.end_object().text());
}

void print_text(std::size_t index, const std::vector<std::optional<std::string>>& texts,
                const std::vector<Hypothesis>& hypotheses, const GenerationOptions& options) {
  if (options.num_return_sequences <= 1) {
    fmt::print("{}\n", *texts.front());
    return;
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    fmt::print("{} ||| {} ||| {:.4f}\n", index, *texts[i],
               options.num_beams > 1 ? hypotheses[i].beam_score : hypotheses[i].score);
  }
}

}  // namespace heed::cli
