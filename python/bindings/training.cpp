// Training by a recipe.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "calls.h"
#include "heed/open/loaded_model.h"
#include "heed/train/recipe.h"
#include "heed/train/train.h"

namespace heed::python {
namespace nb = nanobind;
using namespace nb::literals;

namespace {

nb::object scores_of(const std::optional<Evaluation>& evaluation) {
  if (!evaluation) return nb::none();
  nb::dict scores;
  scores["loss"] = evaluation->loss;
  for (const Metric& metric : evaluation->metrics) scores[metric.name.c_str()] = metric.value;
  return scores;
}

nb::dict train_recipe(const std::string& file, const std::string& output,
                      const std::vector<std::string>& settings, const std::optional<std::string>& init,
                      bool resume, const nb::object& on_step, const nb::object& on_evaluation,
                      const nb::object& on_message) {
  TrainResult result;
  run_unlocked([&](const std::atomic<bool>& stop) {  // it ends with a checkpoint
    Recipe recipe = load_recipe(file, settings);
    for (const std::string& setting : settings) apply_override(recipe, setting);
    recipe = with_defaults(std::move(recipe));
    validate_recipe(recipe);
    TrainOptions options{.output = output, .resume = resume, .stop = &stop};
    if (init) options.init = model_path(*init);
    if (!on_step.is_none())
      options.on_progress = [&](const ProgressEvent& event) {
        const nb::gil_scoped_acquire lock;
        nb::dict step;
        step["step"] = event.step;
        step["total"] = event.total;
        step["epoch"] = event.passes;
        step["loss"] = event.loss;
        step["lr"] = event.lr;
        step["seconds_left"] = event.seconds_left;
        on_step(step);
      };
    if (!on_evaluation.is_none())
      options.on_evaluation = [&](const EvaluationEvent& event) {
        const nb::gil_scoped_acquire lock;
        on_evaluation(event.step, scores_of(event.evaluation), event.best);
      };
    if (!on_message.is_none())
      options.on_message = [&](const std::string& text) {
        const nb::gil_scoped_acquire lock;
        on_message(text);
      };
    result = train(recipe, options);
  });
  nb::dict found;
  found["steps"] = result.steps;
  found["epochs"] = result.passes;
  found["seconds"] = result.seconds;
  found["stopped"] = result.stopped;
  found["early_stopped"] = result.early_stopped;
  found["evaluation"] = scores_of(result.evaluation);
  found["test"] = scores_of(result.test);
  return found;
}

}  // namespace

void bind_training(nb::module_& module) {
  module.def("train", &train_recipe, "recipe"_a, "output"_a, "settings"_a, "init"_a.none(), "resume"_a,
             "on_step"_a.none(), "on_evaluation"_a.none(), "on_message"_a.none());
}

}  // namespace heed::python
