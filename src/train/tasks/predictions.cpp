// Gathers predictions, and writes them as JSON lines.
#include "train/tasks/predictions.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "data/labeled_data.h"
#include "heed/io/json.h"

namespace heed {
namespace {

auto fields(auto& p) {
  return std::tie(p.number, p.text, p.right, p.predicted, p.probabilities, p.loss, p.tokens);
}

}  // namespace

std::vector<Prediction> gather_predictions(Communicator& world, std::vector<Prediction> predictions) {
  if (world.size() > 1) {
    std::vector<std::string> own;
    for (const Prediction& prediction : predictions) {
      RecordWriter writer;
      std::apply([&](const auto&... field) { (writer.write(field), ...); }, fields(prediction));
      own.emplace_back(reinterpret_cast<const char*>(writer.bytes().data()), writer.bytes().size());
    }
    predictions.clear();
    for (const std::string& bytes : gather_texts(world, own)) {
      RecordReader reader(reinterpret_cast<const std::byte*>(bytes.data()));
      std::apply([&](auto&... field) { (reader.read(field), ...); }, fields(predictions.emplace_back()));
    }
  }
  std::sort(predictions.begin(), predictions.end(),
            [](const Prediction& a, const Prediction& b) { return a.number < b.number; });
  return predictions;
}

std::string predictions_jsonl(const std::vector<Prediction>& predictions,
                              const std::vector<std::string>& labels) {
  std::string lines;
  for (const Prediction& prediction : predictions) {
    JsonWriter json;
    json.begin_object().field("text", prediction.text);
    if (prediction.tokens == 0)
      json.field("right", prediction.right).field("predicted", prediction.predicted);
    if (prediction.probabilities.size() == labels.size() && !labels.empty()) {
      json.key("probabilities").begin_object();
      for (std::size_t i = 0; i < labels.size(); ++i) json.field(labels[i], prediction.probabilities[i]);
      json.end_object();
    }
    if (std::isfinite(prediction.loss)) json.field("loss", prediction.loss);
    if (prediction.tokens > 0)
      json.field("tokens", prediction.tokens).field("perplexity", std::exp(prediction.loss));
    lines += json.end_object().text() + "\n";
  }
  return lines;
}

}  // namespace heed
