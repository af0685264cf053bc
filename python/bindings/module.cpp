// heed/_heed: the extension of the Python package.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "heed/error.h"
#include "heed/threads.h"
#include "heed/version.h"

namespace nb = nanobind;

namespace {

void warn_of_slow_processor() {
#if defined(__x86_64__)
  constexpr const char* kText =
      "heed: this processor has no AVX2: everything works, but computing takes several times as long";
  if (!__builtin_cpu_supports("avx2") && PyErr_WarnEx(PyExc_RuntimeWarning, kText, 1) != 0)
    throw nb::python_error();
#endif
}

}  // namespace

NB_MODULE(_heed, module) {
  warn_of_slow_processor();
  module.doc() = "The library of heed. Programs import `heed`, whose classes and functions stand on these.";
  const nb::exception<heed::Error> error(module, "Error", PyExc_ValueError);
  error.attr("__doc__") =
      "What is wrong with a model, a file or a value, in the words of the library: a ValueError.";
  const nb::exception<heed::InternalError> internal(module, "InternalError", PyExc_RuntimeError);
  internal.attr("__doc__") = "A bug of heed: an assertion failed.";
  const nb::exception<heed::Canceled> canceled(module, "Canceled", PyExc_RuntimeError);
  canceled.attr("__doc__") = "A call that was ended before it had a result.";
  module.def("version", &heed::version, "The version of the library.");
  module.def("threads", &heed::threads, "The number of threads that compute.");
  module.def(
      "set_threads",
      [](int count) {
        if (count < 1) throw nb::value_error("set_threads: expected at least 1");
        heed::set_threads(count);
      },
      nb::arg("count"), "Sets the number of threads that compute, of the whole process.");
  heed::python::bind_tokenizer(module);
  heed::python::bind_generation(module);
  heed::python::bind_model(module);
  heed::python::bind_analyses(module);
  heed::python::bind_speech(module);
  heed::python::bind_training(module);
}
