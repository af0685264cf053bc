// Analyses of what a model computes, as reports; the page and the pictures of attention; doctor.
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "bindings.h"
#include "calls.h"
#include "heed/analyses/analyses.h"
#include "heed/analyses/attend.h"
#include "heed/autograd.h"
#include "heed/doctor.h"
#include "heed/inspect/steering_directions.h"
#include "heed/models/steering.h"
#include "heed/open/subject.h"
#include "heed/plot/chart.h"
#include "heed/plot/picture.h"
#include "heed/plot/report.h"

namespace heed::python {
namespace nb = nanobind;
using namespace nb::literals;

namespace {

nb::object object_of(const ReportValue& value) {
  return std::visit(
      [](const auto& content) -> nb::object {
        using Content = std::decay_t<decltype(content)>;
        if constexpr (std::is_same_v<Content, std::monostate>) {
          return nb::none();
        } else if constexpr (std::is_same_v<Content, ReportValue::List>) {
          nb::list list;
          for (const ReportValue& one : content) list.append(object_of(one));
          return list;
        } else if constexpr (std::is_same_v<Content, ReportValue::Object>) {
          nb::dict dict;
          for (const auto& [name, member] : content) dict[name.c_str()] = object_of(member);
          return dict;
        } else {
          return nb::cast(content);
        }
      },
      value.content());
}

nb::dict table_of(const ReportTable& table) {
  nb::list values;
  for (const auto& row : table.cells) {
    nb::list cells;
    for (const ReportCell& cell : row) cells.append(cell.value ? nb::cast(*cell.value) : nb::cast(cell.text));
    values.append(cells);
  }
  nb::dict dict;
  dict["title"] = table.title;
  dict["rows"] = nb::cast(table.rows);
  dict["columns"] = nb::cast(table.columns);
  dict["values"] = values;
  return dict;
}

nb::bytes bytes_of(const std::string& content) { return nb::bytes(content.data(), content.size()); }

AnalysisProgress progress_of(const nb::object& progress, const std::atomic<bool>& stop) {
  return [&progress, &stop](std::int64_t done, std::int64_t total, const char* what) {
    if (stop) throw Canceled();
    if (progress.is_none()) return;
    const nb::gil_scoped_acquire lock;
    progress(done, total, what);
  };
}

struct Metric {
  std::optional<std::string> kind, token, other;
  std::optional<std::int64_t> position;

  MetricChoice choice() const {
    MetricChoice choice{.token = {.token = token}, .other = other, .position = position};
    if (kind) {
      const std::vector<std::string>& names = metric_names();
      const auto found = std::find(names.begin(), names.end(), *kind);
      if (found == names.end()) {
        std::string all;
        for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
        throw Error("metric: expected one of " + all + ", got " + *kind);
      }
      choice.kind = static_cast<MetricKind>(found - names.begin());
    }
    return choice;
  }
};

AnalyzedInput input_of(const AnalyzedModel& model, const std::string& given,
                       const std::optional<std::string>& target) {
  return model.reads_files() ? file_input(model, given) : text_input(model, given, target);
}

std::vector<AnalyzedInput> inputs_of(const AnalyzedModel& model, const std::vector<std::string>& given,
                                     const std::optional<std::string>& target) {
  std::vector<AnalyzedInput> inputs;
  for (const std::string& one : given) inputs.push_back(input_of(model, one, target));
  return inputs;
}

std::string title_of(const std::vector<AnalyzedInput>& inputs) {
  return inputs.size() == 1 ? inputs.front().title : std::to_string(inputs.size()) + " texts";
}

Report lens_of(const AnalyzedModel& model, const std::string& text, const std::optional<std::string>& target,
               std::int64_t top_k) {
  return unlocked(
      [&](const std::atomic<bool>&) { return lens(model, input_of(model, text, target), top_k); });
}

Report attribute_of(const AnalyzedModel& model, const std::vector<std::string>& texts,
                    const std::optional<std::string>& target, const Metric& metric) {
  return unlocked([&](const std::atomic<bool>&) {
    const auto inputs = inputs_of(model, texts, target);
    return attribute_to_logit(model, inputs, metric.choice(), title_of(inputs));
  });
}

Report saliency_of(const AnalyzedModel& model, const std::string& text,
                   const std::optional<std::string>& target, const Metric& metric, const std::string& method,
                   const nb::object& progress) {
  return unlocked([&](const std::atomic<bool>& stop) {
    AttributeInputOptions options{.progress = progress_of(progress, stop)};
    if (method == "integrated") {
      options.method = InputMethod::integrated;
    } else if (method == "occlusion") {
      options.method = InputMethod::occlusion;
    } else if (method != "gradient") {
      throw Error("method: expected gradient, integrated or occlusion, got " + method);
    }
    return attribute_to_input(model, input_of(model, text, target), metric.choice(), options);
  });
}

Report heads_of(const AnalyzedModel& model, const std::vector<std::string>& texts,
                const std::optional<std::string>& target, const std::string& kind, const std::string& sort) {
  return unlocked([&](const std::atomic<bool>&) {
    const NoGradients guard;
    const auto inputs = inputs_of(model, texts, target);
    return heads(model, inputs, {.kind = kind, .sort = sort}, title_of(inputs));
  });
}

Report repeated_heads(const AnalyzedModel& model, std::int64_t tokens, std::uint64_t seed) {
  return unlocked([&](const std::atomic<bool>&) {
    const NoGradients guard;
    const std::vector<AnalyzedInput> inputs{repeated_input(model, tokens, seed)};
    return heads(model, inputs, {}, title_of(inputs));
  });
}

Report ablate_of(const AnalyzedModel& model, const std::vector<std::string>& texts,
                 const std::optional<std::string>& target, const Metric& metric, const std::string& remove,
                 const std::string& replacement, bool feed_forward, const nb::object& progress) {
  return unlocked([&](const std::atomic<bool>& stop) {
    const auto inputs = inputs_of(model, texts, target);
    AblateOptions options{.each = remove.empty(), .feed_forward = feed_forward, .remove = remove};
    if (replacement == "mean") {
      options.replacement = Replacement::mean;
    } else if (replacement == "resample") {
      options.replacement = Replacement::resample;
    } else if (replacement != "zero") {
      throw Error("replacement: expected zero, mean or resample, got " + replacement);
    }
    options.progress = progress_of(progress, stop);
    return ablate(model, inputs, metric.choice(), options, title_of(inputs));
  });
}

Report patch_of(const AnalyzedModel& model, const std::string& clean, const std::string& corrupted,
                const std::optional<std::string>& target, const Metric& metric,
                const std::optional<std::string>& site, const std::string& method,
                const nb::object& progress) {
  return unlocked([&](const std::atomic<bool>& stop) {
    const std::vector<AnalyzedPair> pairs{model.reads_files() ? file_pair(model, clean, corrupted)
                                                              : text_pair(model, clean, corrupted, target)};
    PatchReportOptions options{.site = site, .progress = progress_of(progress, stop)};
    if (method == "gradient") {
      options.method = PatchMethod::gradient;
    } else if (method == "both") {
      options.method = PatchMethod::both;
    } else if (method != "passes") {
      throw Error("method: expected passes, gradient or both, got " + method);
    }
    return patch(model, pairs, metric.choice(), options, pairs.front().clean.title);
  });
}

Report circuits_of(const AnalyzedModel& model, const std::optional<std::string>& head,
                   const nb::object& progress) {
  return unlocked([&](const std::atomic<bool>& stop) {
    CircuitsReportOptions options{.progress = progress_of(progress, stop)};
    if (head) options.head = parse_head(*head);
    return circuits(model, options);
  });
}

// What heed.steer() finds: vectors, their measures, and what a file of them says.
struct Steering {
  std::vector<SteeringDirection> directions;
  Report report;
  std::map<std::string, std::string> metadata;
};

std::vector<std::vector<std::int64_t>> ids_of(const AnalyzedModel& model,
                                              const std::vector<std::string>& texts) {
  std::vector<std::vector<std::int64_t>> ids;
  for (const std::string& text : texts) ids.push_back(model.tokenizer()->encode(text).ids);
  return ids;
}

Steering steer(const AnalyzedModel& model, const std::vector<std::string>& positive,
               const std::vector<std::string>& negative, const std::string& method, const std::string& tokens,
               const nb::object& progress) {
  if (method != "mean" && method != "pca") throw Error("method: expected mean or pca, got " + method);
  if (tokens != "last" && tokens != "mean") throw Error("tokens: expected last or mean, got " + tokens);
  if (model.reads_files())
    throw Error("steer: expected a model of texts, got " + model.model->family() + ", which reads " +
                model.reads() + "s");
  return unlocked([&](const std::atomic<bool>& stop) {
    const AnalysisProgress counted = progress_of(progress, stop);
    Steering steering;
    steering.directions = steering_directions(
        *model.model, ids_of(model, positive), ids_of(model, negative),
        {.method = method == "pca" ? SteeringMethod::pca : SteeringMethod::mean,
         .mean_over_tokens = tokens == "mean",
         .progress = [&](std::int64_t done, std::int64_t total) { counted(done, total, "texts"); }});
    steering.report = steering_report(model, steering.directions, "positive − negative");
    steering.metadata = {{"format", "pt"},
                         {"model", model.name},
                         {"model_type", model.model->family()},
                         {"method", method},
                         {"tokens", tokens},
                         {"positive_texts", std::to_string(positive.size())},
                         {"negative_texts", std::to_string(negative.size())}};
    return steering;
  });
}

void save(const Steering& steering, const std::string& file) {
  std::vector<SteeringVector> vectors;
  for (const SteeringDirection& one : steering.directions) vectors.push_back(one.vector);
  save_steering(file, vectors, steering.metadata.at("model_type"), steering.metadata);
}

AttentionPicture attend_to(const LoadedModel& model, const std::string& name, const std::string& text,
                           const std::optional<std::string>& pair, const std::optional<std::string>& target,
                           const std::string& kind, const std::optional<std::vector<std::int64_t>>& layers,
                           const std::vector<std::int64_t>& heads) {
  return unlocked([&](const std::atomic<bool>& stop) {
    AttendOptions options{.kind = kind, .layers = layers};
    options.chosen_heads = heads;
    if (!heads.empty()) options.heads = AttendHeads::all;
    options.ablate = false;
    Subject subject = subject_of(model, {.given = text, .pair = pair, .target = target, .stop = &stop});
    const NoGradients guard;
    AttentionPicture picture = attend(parts_of(model), std::move(subject), options).picture;
    picture.model.name = name;
    return picture;
  });
}

nb::list examine_model(const LoadedModel& model, const std::string& text,
                       const std::optional<std::function<void(const std::string&)>>& on_check) {
  const std::vector<CheckResult> results = unlocked([&](const std::atomic<bool>& stop) {
    CheckedModel checked = checked_model(model);
    checked.text = text;
    return examine(checked, [&](const CheckResult& result) {
      if (stop) throw Canceled();
      if (!on_check) return;
      const nb::gil_scoped_acquire lock;
      (*on_check)(result.name);
    });
  });
  nb::list list;
  for (const CheckResult& result : results) {
    nb::dict found;
    found["name"] = result.name;
    found["status"] = name_of(result.finding.status);
    found["measurement"] = result.finding.measurement;
    found["advice"] = result.finding.advice;
    nb::dict values;
    for (const auto& [name, value] : result.finding.values) values[name.c_str()] = value;
    found["values"] = values;
    list.append(found);
  }
  return list;
}

}  // namespace

void bind_analyses(nb::module_& module) {
  nb::class_<Report>(module, "Report")
      .def_prop_ro("found", [](const Report& self) { return nb::borrow<nb::any>(object_of(self.found)); })
      .def_prop_ro("tables",
                   [](const Report& self) {
                     nb::list tables;
                     for (const ReportTable& table : self.tables) tables.append(table_of(table));
                     return tables;
                   })
      .def_prop_ro("shown", [](const Report& self) { return table_of(self.shown()); })
      .def_ro("warnings", &Report::warnings)
      .def("text", [](const Report& self) { return report_text(self); })
      .def("json", [](const Report& self) { return report_json(self); })
      .def("svg", [](const Report& self) { return table_svg(self.shown()); })
      .def(
          "file",
          [](const Report& self, const std::string& ending) { return bytes_of(report_file(self, ending)); },
          "ending"_a);

  nb::class_<Metric>(module, "Metric")
      .def(
          "__init__",
          [](Metric* self, std::optional<std::string> kind, std::optional<std::string> token,
             std::optional<std::string> other, std::optional<std::int64_t> position) {
            new (self) Metric{std::move(kind), std::move(token), std::move(other), position};
          },
          "kind"_a.none(), "token"_a.none(), "other"_a.none(), "position"_a.none());

  nb::class_<AnalyzedModel>(module, "AnalyzedModel")
      .def(nb::init<LoadedModel, std::string>(), "opened"_a, "name"_a);
  module.def("lens", &lens_of, "model"_a, "text"_a, "target"_a.none(), "top_k"_a);
  module.def("attribute", &attribute_of, "model"_a, "texts"_a, "target"_a.none(), "metric"_a);
  module.def("saliency", &saliency_of, "model"_a, "text"_a, "target"_a.none(), "metric"_a, "method"_a,
             "progress"_a.none());
  module.def("heads", &heads_of, "model"_a, "texts"_a, "target"_a.none(), "kind"_a, "sort"_a);
  module.def("repeated_heads", &repeated_heads, "model"_a, "tokens"_a, "seed"_a);
  module.def("ablate", &ablate_of, "model"_a, "texts"_a, "target"_a.none(), "metric"_a, "remove"_a,
             "replacement"_a, "feed_forward"_a, "progress"_a.none());
  module.def("patch", &patch_of, "model"_a, "clean"_a, "corrupted"_a, "target"_a.none(), "metric"_a,
             "site"_a.none(), "method"_a, "progress"_a.none());
  module.def("circuits", &circuits_of, "model"_a, "head"_a.none(), "progress"_a.none());

  nb::class_<Steering>(module, "Steering")
      .def_ro("report", &Steering::report)
      .def_prop_ro("vectors",
                   [](const Steering& self) {
                     nb::list vectors;
                     for (const SteeringDirection& one : self.directions)
                       vectors.append(nb::make_tuple(one.vector.layer, array_of(one.vector.vector)));
                     return vectors;
                   })
      .def("save", &save, "file"_a);
  module.def("steer", &steer, "model"_a, "positive"_a, "negative"_a, "method"_a, "tokens"_a,
             "progress"_a.none());

  module.def(
      "line_chart",
      [](const std::string& title, const std::string& x, const std::string& y,
         const std::vector<std::pair<std::string, std::pair<std::vector<double>, std::vector<double>>>>&
             series) {
        LineChart chart{.title = title, .x_label = x, .y_label = y};
        for (const auto& [name, points] : series)
          chart.series.push_back({.name = name, .x = points.first, .y = points.second, .marks = true});
        return line_chart_svg(chart);
      },
      "title"_a, "x"_a, "y"_a, "series"_a);
  nb::class_<AttentionPicture>(module, "AttentionPicture")
      .def("html", [](const AttentionPicture& self) { return attention_html(self); })
      .def("svg", [](const AttentionPicture& self) { return attention_svg(self); })
      .def("png", [](const AttentionPicture& self) { return bytes_of(attention_png(self)); })
      .def("text", [](const AttentionPicture& self) { return attention_terminal(self); })
      .def("json", [](const AttentionPicture& self) { return attention_json(self); });
  module.def("attend", &attend_to, "model"_a, "name"_a, "text"_a, "pair"_a.none(), "target"_a.none(),
             "kind"_a, "layers"_a.none(), "heads"_a);
  module.def("doctor", &examine_model, "model"_a, "text"_a, "on_check"_a.none());
}

}  // namespace heed::python
