#include "chat/functions.h"

namespace heed::chat {

Bound::Bound(const CallArguments& arguments, std::string_view callee,
             std::initializer_list<const char*> names, std::size_t required)
    : callee_(callee), names_(names), given_(names.size(), nullptr) {
  if (arguments.positional.size() > names_.size()) {
    throw Fault("expected at most " + std::to_string(names_.size()) + " arguments of " + callee_ + ", got " +
                std::to_string(arguments.positional.size()));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) given_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    std::size_t place = 0;
    while (place < names_.size() && name != names_[place]) ++place;
    if (place == names_.size()) throw Fault("expected an argument that " + callee_ + " has, got " + name);
    if (given_[place] != nullptr) throw Fault("expected " + name + " of " + callee_ + " once, got it twice");
    given_[place] = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (given_[i] == nullptr)
      throw Fault("expected an argument " + std::string(names_[i]) + " of " + callee_ + ", got none");
  }
}

bool Bound::truth(std::size_t parameter, bool otherwise) const {
  return given_[parameter] == nullptr ? otherwise : chat::truth(*given_[parameter]);
}

std::int64_t Bound::whole(std::size_t parameter, std::int64_t otherwise) const {
  const Value* value = given_[parameter];
  if (value == nullptr) return otherwise;
  require_defined(*value);
  if (!value->is_whole()) {
    throw Fault("expected an integer for " + std::string(names_[parameter]) + " of " + callee_ + ", got " +
                type_name(*value));
  }
  return value->whole();
}

MarkedText Bound::text(std::size_t parameter, std::string_view otherwise, Budget& budget) const {
  return given_[parameter] == nullptr ? MarkedText(std::string(otherwise))
                                      : shown(*given_[parameter], budget);
}

}  // namespace heed::chat
