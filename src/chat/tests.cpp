// What stands after `is`: defined, mapping, divisibleby, ...
#include "chat/functions.h"
#include "chat/letters.h"
#include "core/utf8.h"

namespace heed::chat {
namespace {

const Value& only_argument(const CallArguments& arguments) {
  if (arguments.positional.size() != 1 || !arguments.named.empty())
    throw TemplateError("expected one argument of a test, got another number");
  return arguments.positional.front();
}

std::int64_t remainder_by(const Value& input, std::int64_t divisor) {
  require_defined(input);
  if (!input.is_whole())
    throw TemplateError("expected an integer to test its remainder, got " + type_name(input));
  if (divisor == 0) throw TemplateError("expected a divisor other than 0, got 0");
  return divisor == -1 ? 0 : input.whole() % divisor;
}

/// Whether a text has letters of a case, and none of another.
bool has_case(Renderer& renderer, const Value& input, bool upper) {
  const MarkedText text = shown(input, renderer.budget());
  return truth(call_text_method(renderer, renderer.text(text), upper ? "isupper" : "islower", {}));
}

bool is_iterable(const Value& input) {
  return input.is_text() || input.is_sequence() || input.is_dict() || input.is_undefined() ||
         input.as<View>() != nullptr || input.as<Iterator>() != nullptr;
}

Tests make_tests() {
  using R = Renderer&;
  using V = const Value&;
  using A = const CallArguments&;
  Tests tests{
      {"defined", [](R, V x, A) { return !x.is_undefined(); }},
      {"undefined", [](R, V x, A) { return x.is_undefined(); }},
      {"none", [](R, V x, A) { return x.is_none(); }},
      {"string", [](R, V x, A) { return x.is_text(); }},
      {"number", [](R, V x, A) { return x.is_number(); }},
      {"integer", [](R, V x, A) { return x.is_integer(); }},
      {"float", [](R, V x, A) { return x.is_real(); }},
      {"boolean", [](R, V x, A) { return x.is_boolean(); }},
      {"true", [](R, V x, A) { return x.is_boolean() && x.boolean(); }},
      {"false", [](R, V x, A) { return x.is_boolean() && !x.boolean(); }},
      {"mapping", [](R, V x, A) { return x.is_dict(); }},
      {"iterable", [](R, V x, A) { return is_iterable(x); }},
      {"sequence",
       [](R, V x, A) {
         const View* view = x.as<View>();
         return x.is_text() || x.is_sequence() || x.is_dict() || x.is_undefined() ||
                (view != nullptr && view->name == "range");
       }},
      {"callable",
       [](R, V x, A) {
         return x.is_undefined() || (x.as<Object>() != nullptr && x.as<Object>()->is_callable());
       }},
      {"even", [](R, V x, A) { return remainder_by(x, 2) == 0; }},
      {"odd", [](R, V x, A) { return remainder_by(x, 2) != 0; }},
      {"divisibleby",
       [](R, V x, A a) {
         const BoundArguments bound(a, "divisibleby", {"num"}, 1);
         return remainder_by(x, bound.whole(0, 1)) == 0;
       }},
      {"in", [](R r, V x, A a) { return contains(only_argument(a), x, r.budget()); }},
      {"eq", [](R r, V x, A a) { return equal(x, only_argument(a), r.budget()); }},
      {"ne", [](R r, V x, A a) { return !equal(x, only_argument(a), r.budget()); }},
      {"lt", [](R r, V x, A a) { return less(x, only_argument(a), r.budget()); }},
      {"gt", [](R r, V x, A a) { return less(only_argument(a), x, r.budget()); }},
      {"le",
       [](R r, V x, A a) {
         return less(x, only_argument(a), r.budget()) || equal(x, only_argument(a), r.budget());
       }},
      {"ge",
       [](R r, V x, A a) {
         return less(only_argument(a), x, r.budget()) || equal(x, only_argument(a), r.budget());
       }},
      {"sameas", [](R, V x, A a) { return x.same_as(only_argument(a)); }},
      {"upper", [](R r, V x, A) { return has_case(r, x, true); }},
      {"lower", [](R r, V x, A) { return has_case(r, x, false); }},
      {"escaped", [](R, V x, A) { return x.is_text() && x.text().is_html(); }},
      {"filter",
       [](R, V x, A) {
         return x.is_text() && (text_filters().contains(x.bytes()) || sequence_filters().contains(x.bytes()));
       }},
      {"test", [](R, V x, A) { return x.is_text() && value_tests().contains(x.bytes()); }},
  };
  const std::pair<const char*, const char*> others[] = {
      {"equalto", "eq"}, {"==", "eq"},          {"!=", "ne"}, {"<", "lt"}, {"lessthan", "lt"},
      {">", "gt"},       {"greaterthan", "gt"}, {"<=", "le"}, {">=", "ge"}};
  for (const auto& [name, meant] : others) tests.emplace(name, tests.at(meant));
  return tests;
}

}  // namespace

const Tests& value_tests() {
  static const Tests kTests = make_tests();
  return kTests;
}

}  // namespace heed::chat
