// The tagging task: a label for each word.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "core/stop_scope.h"
#include "heed/error.h"
#include "heed/ops/loss.h"
#include "heed/score/labels.h"
#include "heed/text/unicode.h"
#include "train/tasks/labeled_task.h"
#include "train/tasks/predictions.h"

namespace heed {
namespace {

// The different tags: O first, as usual; the others in order.
std::vector<std::string> tags_of(const TaggedSentences& sentences) {
  std::set<std::string> names;
  for (std::int64_t i = 0; i < sentences.size(); ++i) {
    for (std::string& tag : sentences[i].tags) names.insert(std::move(tag));
  }
  std::vector<std::string> sorted(names.begin(), names.end());
  std::stable_partition(sorted.begin(), sorted.end(), [](const std::string& name) { return name == "O"; });
  return sorted;
}

// The words of a sentence joined by spaces, and the first character of each.
struct JoinedWords {
  std::string text;
  std::vector<std::int64_t> begins;
};

JoinedWords join(const std::vector<std::string>& words) {
  JoinedWords joined;
  std::int64_t place = 0;
  for (const std::string& word : words) {
    if (!joined.text.empty()) joined.text += ' ', ++place;
    joined.begins.push_back(place);
    joined.text += word;
    place += static_cast<std::int64_t>(count_characters(word));
  }
  return joined;
}

}  // namespace

TaggingTask::TaggingTask(const Recipe& recipe, const TrainOptions& options,
                         const std::filesystem::path& checkpoint)
    : LabeledTask(recipe, options) {
  const LabeledParts<TaggedSentences> parts = read_parts(
      recipe.data, "sentences", [this](const std::string& text) { message(text); },
      [&](const std::filesystem::path& path) {
        TaggedSentences found = read_conll(path, recipe.data, options.output);
        report_control_bytes(path, found.control_bytes);
        return found;
      });
  const auto& [all, train, dev, test] = parts;
  message(fmt::format("{} sentences to train on, {} for development, {} for the test", train.size(),
                      dev.size(), test.size()));
  const SentenceSource texts = [&sentences = parts.train, next = std::int64_t{0}](std::string& text) mutable {
    if (next == sentences.size()) return false;
    text = join(sentences[next++].words).text;
    return true;
  };
  const std::vector<std::string> tags = known_labels(start_of(checkpoint), tags_of(*all));
  check_labels(tags, "tags", recipe.data.train);
  load_or_make(checkpoint, texts, "ForTokenClassification", label_members(tags, ""));
  DataCounts counts("sentences", "tokens", static_cast<double>(longest()));
  dev_ = tokenize(dev, "development", counts);
  test_ = tokenize(test, "test", counts);
  Examples examples = tokenize(train, "training", counts);
  data_ = counts.finish();
  begin_training(std::move(examples));
}

LabeledTask::Examples TaggingTask::tokenize(const ChosenRecords<TaggedSentences>& sentences, const char* set,
                                            DataCounts& counts) const {
  counts.begin(set);
  const std::vector<std::string>& names = model_->labels();
  Examples examples(options_.output);
  const Truncation truncation{.max_length = longest()};
  for (std::int64_t number = 0; number < sentences.size(); ++number) {
    throw_if_stopped();
    const TaggedWords sentence = sentences[number];
    const JoinedWords joined = join(sentence.words);
    const Encoding encoding = encode(joined.text, std::nullopt, truncation, counts);
    counts.add(content_key(sentence));
    for (const std::string& tag : sentence.tags) counts.add_label(tag);
    Example example{{encoding.ids.begin(), encoding.ids.end()},
                    {encoding.type_ids.begin(), encoding.type_ids.end()},
                    std::vector<std::int64_t>(encoding.ids.size(), kIgnoredLabel),
                    {}};
    if (std::string_view(set) != "training") example.text = joined.text;
    std::size_t word = 0;
    for (std::size_t i = 0; i < encoding.ids.size() && word < joined.begins.size(); ++i) {
      const auto [begin, end] = encoding.offsets[i];
      if (encoding.sequence_ids[i] < 0 || end <= joined.begins[word]) continue;
      while (word + 1 < joined.begins.size() && joined.begins[word + 1] < end)
        ++word;  // a token over several words
      const auto found = std::find(names.begin(), names.end(), sentence.tags[word]);
      if (found == names.end()) {
        throw Error(fmt::format("{}: expected one of the tags of the training data ({}), got \"{}\"",
                                sentences.list->where(sentence, static_cast<std::int64_t>(word)),
                                fmt::join(names, ", "), sentence.tags[word]));
      }
      example.labels[i] = found - names.begin();
      ++word;
    }
    examples.add(example);
  }
  examples.finish();
  return examples;
}

std::optional<Evaluation> TaggingTask::test() {
  if (test_.empty()) return std::nullopt;
  return evaluate(test_);
}

Evaluation TaggingTask::evaluate(const Examples& examples) const {
  const std::vector<std::string>& names = model_->labels();
  double sum = 0;
  std::int64_t words = 0, hits = 0;
  EntityReport entities;
  std::vector<Prediction> predictions;
  for_each_batch(examples, [&](const LabeledBatch& batch) {
    Context context;
    const Tensor logits = model_->predict(model_->encode(batch.inputs, context), batch.inputs.mask, context);
    sum += cross_entropy(logits, batch.labels, {.ignore_index = kIgnoredLabel, .reduction = Reduction::sum})
               .item();
    const std::vector<float> scores = logits.to(DType::f32).to_vector<float>();
    const std::vector<std::int64_t> labels = batch.labels.to_vector<std::int64_t>();
    const std::int64_t width = batch.labels.size(1);
    const std::vector<float> losses =
        cross_entropy(logits, batch.labels, {.ignore_index = kIgnoredLabel, .reduction = Reduction::none})
            .to(DType::f32)
            .to_vector<float>();
    std::vector<std::vector<std::string>> predicted, right;
    for (std::size_t at = 0; at < labels.size(); ++at) {
      if (static_cast<std::int64_t>(at) % width == 0) predicted.emplace_back(), right.emplace_back();
      if (labels[at] == kIgnoredLabel) continue;
      const float* row = scores.data() + at * names.size();
      const auto best = std::max_element(row, row + names.size()) - row;
      predicted.back().push_back(names[static_cast<std::size_t>(best)]);
      right.back().push_back(names[static_cast<std::size_t>(labels[at])]);
      hits += best == labels[at];
      ++words;
    }
    for (std::size_t i = 0; i < batch.rows.size(); ++i) {
      const auto begin = losses.begin() + static_cast<std::ptrdiff_t>(i) * width;
      predictions.push_back({.number = batch.rows[i],
                             .text = examples[batch.rows[i]].text,
                             .right = fmt::format("{}", fmt::join(right[i], " ")),
                             .predicted = fmt::format("{}", fmt::join(predicted[i], " ")),
                             .loss = std::accumulate(begin, begin + width, 0.0) /
                                     static_cast<double>(std::max<std::size_t>(1, right[i].size()))});
    }
    const EntityReport found = entity_report(predicted, right);
    entities.correct += found.correct;
    entities.predicted += found.predicted;
    entities.support += found.support;
  });
  const auto counted = [](std::int64_t count) { return static_cast<double>(count); };
  const std::vector<double> sums =
      processes_of(options_).sum({sum, counted(words), counted(hits), counted(entities.correct),
                                  counted(entities.predicted), counted(entities.support)});
  const auto count = [&](std::size_t i) { return static_cast<std::int64_t>(sums[i]); };
  const EntityReport report = entity_report(count(3), count(4), count(5));
  const double total = sums[1];
  return {sums[0] / total,
          {{"f1", 100 * report.f1},
           {"precision", 100 * report.precision},
           {"recall", 100 * report.recall},
           {"accuracy", 100 * sums[2] / total}},
          gather_predictions(processes_of(options_), std::move(predictions))};
}

}  // namespace heed
