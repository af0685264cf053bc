// Writes the table and the charts of attention over long sequences, from reports of `heed bench attention
// --json` (bench/long_attention.sh makes them):
//   long_attention REPORTS.jsonl PAGE.md FOLDER_FOR_PICTURES
// For each length, with and without --backward, the last report is used.
#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>

#include "heed/error.h"
#include "heed/io/json.h"
#include "heed/plot/chart.h"

namespace {

struct Report {
  double seconds = 0;
  double fraction = 0;
  double growth = 0;  // bytes
  double matrix = 0;  // bytes of one matrix of scores of every pair
};

/// By length, of forward alone and of forward and backward.
using Reports = std::map<std::int64_t, std::map<bool, Report>>;

Reports read(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw heed::Error(path + ": expected a file of reports, got none");
  Reports reports;
  for (std::string line; std::getline(file, line);) {
    const heed::Config json = heed::Config::parse(line, path);
    const heed::Config shape = json.sub("shape");
    const std::int64_t length = shape.required_integer("length");
    const double pairs = static_cast<double>(length) * static_cast<double>(length);
    reports[length][shape.boolean("backward", false)] = {
        json.required_number("median_s"), json.required_number("fraction"),
        json.required_number("memory_growth_bytes"), pairs * sizeof(float)};
  }
  return reports;
}

std::string table(const Reports& reports) {
  std::string text =
      "| T | forward, s | of the limit | memory, MB | forward + backward, s | of the limit | memory, MB | "
      "one T×T matrix, MB "
      "|\n|---|---|---|---|---|---|---|---|\n";
  for (const auto& [length, both] : reports) {
    text += fmt::format("| {} ", length);
    for (const bool backward : {false, true}) {
      const Report& r = both.at(backward);
      text += fmt::format("| {:.4g} | {:.0f} % | {:.1f} ", r.seconds, 100 * r.fraction, r.growth / 1e6);
    }
    text += fmt::format("| {:.0f} |\n", both.at(false).matrix / 1e6);
  }
  return text;
}

heed::LineChart chart(const Reports& reports, const char* title, const char* y_label, double Report::*value) {
  heed::LineChart result;
  result.title = title;
  result.x_label = "T";
  result.y_label = y_label;
  result.log_y = true;
  result.series = {{"forward", {}, {}}, {"forward + backward", {}, {}}};
  for (const auto& entry : reports) {
    for (const bool backward : {false, true}) {
      heed::ChartSeries& series = result.series[backward ? 1 : 0];
      series.x.push_back(static_cast<double>(entry.first));
      series.y.push_back(entry.second.at(backward).*value);
    }
  }
  return result;
}

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  if (!(file << text)) throw heed::Error(path + ": expected a file that can be written, got none");
}

// Puts `content` between the page's <!-- long attention --> marks.
void replace_table(const std::string& page, const std::string& content) {
  const std::string open = "<!-- long attention -->\n", close = "<!-- /long attention -->";
  std::ifstream file(page);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::size_t begin = text.find(open), end = text.find(close);
  if (begin == std::string::npos || end == std::string::npos)
    throw heed::Error(page + ": expected the marks of the table, got none");
  write(page, text.substr(0, begin + open.size()) + content + text.substr(end));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: long_attention REPORTS.jsonl PAGE.md FOLDER\n", stderr);
    return 2;
  }
  try {
    const Reports reports = read(argv[1]);
    replace_table(argv[2], table(reports));
    heed::LineChart memory =
        chart(reports, "Memory above the start, one head of 64", "bytes", &Report::growth);
    memory.series.push_back({"one T×T matrix", {}, {}});
    for (const auto& [length, both] : reports) {
      memory.series.back().x.push_back(static_cast<double>(length));
      memory.series.back().y.push_back(both.at(false).matrix);
    }
    const std::string folder = argv[3];
    write(folder + "/long-attention-memory.svg", heed::line_chart_svg(memory));
    write(folder + "/long-attention-time.svg",
          heed::line_chart_svg(chart(reports, "Time, one head of 64", "seconds", &Report::seconds)));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "long_attention: error: %s\n", error.what());
    return 1;
  }
  return 0;
}
