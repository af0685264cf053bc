#include "cli/results/results.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/cli.h"
#include "cli/terminal/terminal.h"
#include "heed/files/file.h"
#include "heed/io/json.h"

namespace heed::cli {
namespace {

// The results of one input.
struct Written {
  std::size_t index;
  const std::vector<Hypothesis>& hypotheses;
  const std::vector<std::optional<std::string>>& texts;
  const GenerationOptions& options;
  const std::vector<std::string>& full_texts;  // empty: not requested

  double score(std::size_t i) const {
    return options.num_beams > 1 ? hypotheses[i].beam_score : hypotheses[i].score;
  }
};

void write_hypothesis(JsonWriter& json, const Written& all, std::size_t i) {
  const Hypothesis& h = all.hypotheses[i];
  json.field("ids", h.ids).field("text", all.texts[i]);
  if (!all.full_texts.empty()) json.field("full_text", all.full_texts[i]);
  json.field("score", all.score(i))
      .field("log_probability", h.score)
      .field("finish_reason", finish_reason_name(h.finish_reason));
}

void print_json(const Written& all) {
  JsonWriter json;
  json.begin_object();
  write_hypothesis(json, all, 0);
  if (all.options.num_return_sequences > 1) {
    json.key("sequences").begin_array();
    for (std::size_t i = 0; i < all.hypotheses.size(); ++i) {
      json.begin_object();
      write_hypothesis(json, all, i);
      json.end_object();
    }
    json.end_array();
  }
  if (all.options.do_sample) json.field("seed", all.options.seed);
  print_stdout("{}\n", json.end_object().text());
}

void print_text(const Written& all) {
  if (all.options.num_return_sequences <= 1) {
    print_stdout("{}\n", *all.texts.front());
    return;
  }
  for (std::size_t i = 0; i < all.texts.size(); ++i)
    print_stdout("{} ||| {} ||| {:.4f}\n", all.index, *all.texts[i], all.score(i));
}

}  // namespace

std::string escape_newlines(const std::string& text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\r') {
      line += "\\r";
    } else {
      line += c;
    }
  }
  return line;
}

void print_hypotheses(bool json, std::size_t index, const std::vector<Hypothesis>& hypotheses,
                      const std::vector<std::optional<std::string>>& texts, const GenerationOptions& options,
                      const std::vector<std::string>& full_texts) {
  const Written all{index, hypotheses, texts, options, full_texts};
  json ? print_json(all) : print_text(all);
}

void check_picture_file(const std::filesystem::path& file) {
  const std::string ending = file.extension().string();
  const auto known = {".html", ".svg", ".pdf", ".png", ".json", ".npy"};
  if (std::find(known.begin(), known.end(), ending) == known.end()) {
    throw UsageError(file.string() +
                     ": expected a file ending in .html, .svg, .pdf, .png, .json or .npy, got \"" + ending +
                     "\"");
  }
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  if (!std::filesystem::is_directory(folder)) {
    throw Error(file.string() + ": folder " + folder.string() + " not found (create it first)");
  }
}

std::filesystem::path numbered(const std::filesystem::path& file, std::size_t index) {
  return file.parent_path() /
         (file.stem().string() + "-" + std::to_string(index + 1) + file.extension().string());
}

void write_picture(const AttentionPicture& picture, const std::filesystem::path& file,
                   const FigureStyle& style) {
  const std::string ending = file.extension().string();
  if (ending == ".html") return write_file(file, attention_html(picture));
  if (ending == ".svg") return write_file(file, attention_svg(picture, style));
  if (ending == ".pdf") return write_file(file, attention_pdf(picture, style));
  if (ending == ".png") return write_file(file, attention_png(picture, style));
  if (ending == ".json") return write_file(file, attention_json(picture));
  write_file(file, attention_npy(picture));
}

}  // namespace heed::cli
