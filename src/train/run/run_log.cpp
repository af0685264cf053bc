// Appends to log.jsonl, truncates it when a run is resumed, and draws it.
#include "train/run/run_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/json.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/io/json.h"

namespace heed {
namespace {

constexpr std::size_t kChartPoints = 300;

[[noreturn]] void fail(const std::filesystem::path& file, const char* what) {
  throw Error(fmt::format("{}: cannot {} the log: {}", file.string(), what, std::strerror(errno)));
}

// Averages consecutive steps in groups of equal size, because the loss of single steps is noisy.
ChartSeries smoothed(const std::string& name, const std::vector<double>& x, const std::vector<double>& y) {
  ChartSeries series{name, {}, {}};
  const std::size_t width = x.size() / kChartPoints + 1;
  for (std::size_t begin = 0; begin < x.size(); begin += width) {
    const std::size_t end = std::min(x.size(), begin + width);
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += y[i];
    series.x.push_back(x[end - 1]);
    series.y.push_back(sum / static_cast<double>(end - begin));
  }
  return series;
}

}  // namespace

RunLog::RunLog(const std::filesystem::path& file, std::int64_t last_step) : file_(file) {
  if (std::filesystem::exists(file)) keep(last_step);
  std::int64_t next = 1;
  for (const double step : training_.x)
    if (step == static_cast<double>(next)) ++next;
  if (next <= last_step) first_missing_ = next;
  descriptor_ = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(file, "open");
}

RunLog::~RunLog() { ::close(descriptor_); }

void RunLog::keep(std::int64_t last_step) {
  const std::string text = read_regular_file(file_, file_limits::kText);
  std::string kept;
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const std::string where = fmt::format("{}:{}", file_.string(), ++number);
    const Config json = Config::parse(line, where);
    if (json.required_integer("step") > last_step || json.boolean("final", false)) continue;
    remember(line, where);
    kept += line + "\n";
  }
  if (kept.size() != text.size()) write_file(file_, kept);
}

void RunLog::remember(const std::string& line, const std::string& where) {
  const Config json = Config::parse(line, where);
  for (const std::string& name : json.names())
    if (std::find(members_.begin(), members_.end(), name) == members_.end()) members_.push_back(name);
  const auto step = static_cast<double>(json.required_integer("step"));
  const std::optional<double> loss = json.optional_number("loss");
  const std::optional<double> dev_loss = json.optional_number("dev_loss");
  if (loss) training_.x.push_back(step), training_.y.push_back(*loss);
  if (const std::optional<double> lr = json.optional_number("lr"))
    rates_.x.push_back(step), rates_.y.push_back(*lr);
  if (!dev_loss) return;
  development_.x.push_back(step), development_.y.push_back(*dev_loss);
  for (const std::string& name : json.names()) {
    if (name == "step" || name == "dev_loss" || name == "best" || name == "final") continue;
    if (const std::optional<double> value = json.optional_number(name))
      metrics_[name].x.push_back(step), metrics_[name].y.push_back(*value);
  }
}

void RunLog::append(const std::string& line) {
  const std::string text = line + "\n";
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(descriptor_, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(file_, "write");
    done += static_cast<std::size_t>(written);
  }
  remember(line, file_.string());
}

void RunLog::add(const StepRecord& r, const std::string& unit) {
  JsonWriter json;
  json.begin_object();
  json.field("step", r.step).field("epoch", r.epoch).field("loss", r.loss).field("lr", r.lr);
  json.field("grad_norm", r.grad_norm).field(unit, r.targets);
  json.field(unit + "_per_second", r.per_second).field("seconds", r.seconds);
  for (const Metric& metric : r.metrics) json.field(metric.name, metric.value);
  if (r.communication) {
    json.field("bytes_sent", r.communication->bytes);
    json.field("communication_seconds", r.communication->seconds);
    json.field("waited_seconds", r.communication->waited);
  }
  json.end_object();
  append(json.text());
}

void RunLog::add(std::int64_t step, const Evaluation& evaluation, bool best, bool final_model) {
  JsonWriter json;
  json.begin_object();
  json.field("step", step).field("dev_loss", evaluation.loss);
  for (const Metric& metric : evaluation.metrics) json.field(metric.name, metric.value);
  if (final_model) {
    json.field("final", true);
  } else {
    json.field("best", best);
  }
  json.end_object();
  append(json.text());
}

void RunLog::add_test(std::int64_t step, const Evaluation& evaluation) {
  JsonWriter json;
  json.begin_object();
  json.field("step", step).field("test_loss", evaluation.loss);
  for (const Metric& metric : evaluation.metrics) json.field(metric.name, metric.value);
  json.field("final", true).end_object();
  append(json.text());
}

void RunLog::sync() {
  if (::fsync(descriptor_) != 0) fail(file_, "save");
}

void RunLog::write_csv(const std::filesystem::path& file) const {
  AtomicFile table(file);
  table.write(fmt::format("{}\n", fmt::join(members_, ",")));
  std::ifstream lines(file_);
  for (std::string line; std::getline(lines, line);) {
    const Json json = parse_json(line, file_.string());
    std::vector<std::string> cells;
    for (const std::string& name : members_) {
      const auto found = json.find(name);
      cells.push_back(found == json.end() ? "" : json_text(*found));
    }
    table.write(fmt::format("{}\n", fmt::join(cells, ",")));
  }
  table.commit();
}

std::vector<LineChart> RunLog::charts() const {
  constexpr double kMemory = 0.9;
  ChartSeries mean{"smoothed", training_.x, {}};
  double sum = 0, left = 1;
  for (const double loss : training_.y) {
    sum = kMemory * sum + (1 - kMemory) * loss;
    left *= kMemory;
    mean.y.push_back(sum / (1 - left));
  }
  LineChart loss{.title = "Loss", .x_label = "step", .y_label = "per target", .width = 540, .height = 330};
  loss.series = {smoothed("each step", training_.x, training_.y), std::move(mean)};
  if (!development_.x.empty()) loss.series.push_back({"development", development_.x, development_.y, true});
  LineChart scores{.title = "Development set", .x_label = "step", .width = 540, .height = 330};
  for (const auto& [name, points] : metrics_) scores.series.push_back({name, points.x, points.y, true});
  LineChart rate{.title = "Learning rate", .x_label = "step", .width = 540, .height = 330};
  rate.series = {{"", rates_.x, rates_.y}};
  std::vector<LineChart> charts{std::move(loss)};
  if (!scores.series.empty()) charts.push_back(std::move(scores));
  charts.push_back(std::move(rate));
  return charts;
}

std::string RunLog::svg(const std::string& title) const {
  LineChart chart;
  chart.title = title;
  chart.x_label = "step";
  chart.y_label = "loss per target token";
  chart.series.push_back(smoothed("training", training_.x, training_.y));
  if (!development_.x.empty()) {
    chart.series.push_back({"development", development_.x, development_.y, true});
  }
  for (const auto& [name, points] : metrics_) {
    chart.lower_label = "development set";
    chart.lower_most = 100;
    chart.lower.push_back({name, points.x, points.y, true});
  }
  return line_chart_svg(chart);
}

}  // namespace heed
