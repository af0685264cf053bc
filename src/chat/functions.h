// What templates call by name: filters, tests, methods, and the functions that every template has.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "chat/renderer.h"
#include "chat/value.h"

namespace heed::chat {

using Filter = Value (*)(Renderer& renderer, const Value& input, const CallArguments& arguments);
using Filters = std::map<std::string_view, Filter>;
const Filters& text_filters();
const Filters& sequence_filters();

using Test = bool (*)(Renderer& renderer, const Value& input, const CallArguments& arguments);
using Tests = std::map<std::string_view, Test>;
const Tests& value_tests();

/// Returns a method of a value, one that the sandbox refuses as undefined; or nullopt if it has none of this
/// name.
std::optional<Value> method_of(const Value& value, std::string_view name);
/// Methods of strings. Throws TemplateError if a name is not one of them.
Value call_text_method(Renderer& renderer, const Value& self, std::string_view name,
                       const CallArguments& arguments);
bool is_text_method(std::string_view name);

/// range, namespace and so on, by name.
std::vector<std::pair<std::string_view, Value>> global_functions();

/// The filter `tojson` of transformers: json.dumps with its arguments.
Value to_json(Renderer& renderer, const Value& input, const CallArguments& arguments);
/// printf's formats, as `text % values` has them.
MarkedText percent_format(Renderer& renderer, const MarkedText& format, const CallArguments& values);
/// str.format().
MarkedText brace_format(Renderer& renderer, const MarkedText& format, const CallArguments& values);

/// The text with the characters that HTML takes for its own as references, unless it is HTML already.
MarkedText escaped(const MarkedText& text, Budget& budget);

/// a + b and so on. Throws TemplateError for values that `symbol` does not join.
Value arithmetic(Renderer& renderer, std::string_view symbol, const Value& a, const Value& b);

/// The arguments of a call under the names of its parameters.
class BoundArguments {
 public:
  /// Throws TemplateError, which names `callee`, if there are more arguments than parameters, one is given
  /// twice, or one of the first `required` is missing.
  BoundArguments(const CallArguments& arguments, std::string_view callee,
                 std::initializer_list<const char*> names, std::size_t required = 0);
  /// Returns null if it was not given.
  const Value* operator[](std::size_t parameter) const { return given_[parameter]; }
  bool truth(std::size_t parameter, bool otherwise) const;
  std::int64_t whole(std::size_t parameter, std::int64_t otherwise) const;
  /// A string as it is, or a value as it prints.
  MarkedText text(std::size_t parameter, std::string_view otherwise, Budget& budget) const;

 private:
  std::string callee_;
  std::vector<const char*> names_;
  std::vector<const Value*> given_;
};

}  // namespace heed::chat
