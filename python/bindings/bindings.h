// The parts of the extension, each of which adds its classes and functions to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace heed {
class LoadedModel;
}

namespace heed::python {

void bind_tokenizer(nanobind::module_& module);
void bind_generation(nanobind::module_& module);
void bind_model(nanobind::module_& module);
void bind_analyses(nanobind::module_& module);
void bind_speech(nanobind::module_& module);
void bind_training(nanobind::module_& module);
void bind_weights(nanobind::class_<LoadedModel>& model);

}  // namespace heed::python
