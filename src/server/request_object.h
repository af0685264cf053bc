// An object of a request's JSON: null is as absent; a field of a wrong type or out of range is an ApiError
// that names it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/json_field.h"
#include "server/api_error.h"

namespace heed::server {

/// A body as a JSON object. Throws ApiError for anything else.
Json parse_body(std::string_view body);

class RequestObject {
 public:
  /// `object` must outlive this. `path` is that of the object in the request; empty: all of it.
  explicit RequestObject(const Json& object, std::string path = {})
      : object_(object, "request", std::move(path)) {}

  /// Null for an absent field.
  const Json* find(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<double> number(std::string_view key, double least, double most) const;
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t least, std::int64_t most) const;
  std::optional<std::string> string(std::string_view key) const;
  /// A string, or an array of them; empty if absent.
  std::vector<std::string> strings(std::string_view key) const;
  std::vector<std::int64_t> integers(std::string_view key, std::int64_t least, std::int64_t most) const;
  std::vector<double> numbers(std::string_view key, double least, double most) const;
  /// Null if absent.
  const Json* object(std::string_view key) const;
  const Json* array(std::string_view key) const;
  /// The fields of a member that is an object; nothing if absent.
  std::optional<RequestObject> members(std::string_view key) const;
  /// The object at an index of an array that is there.
  RequestObject element(std::string_view key, std::size_t index) const;
  auto items() const { return object_.value().items(); }
  /// `heed.attention.layers`: a field as errors name it.
  std::string path_of(std::string_view key) const { return object_.path_of(key); }

  /// Throws ApiError `request: PATH: expected EXPECTED, got VALUE`.
  [[noreturn]] void fail(std::string_view key, std::string_view expected) const;

 private:
  template <class Read>
  auto read(std::string_view key, Read read) const;

  double checked_number(const JsonField& field, double least, double most) const;

  JsonField object_;
};

}  // namespace heed::server
