// The fields of a request, declared once: a walk over them reads them from a JSON object, and the same walk
// describes them for /openapi.json and the documentation.
//   struct EmbedRequest {
//     bool truncate = true;
//     void walk(Fields& fields) { fields("truncate", truncate, "Cut texts that are too long"); }
//   };
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/json_field.h"
#include "heed/threads.h"
#include "server/messages.h"

namespace heed::server {

/// A body as a JSON object. Throws ApiError for anything else.
Json parse_body(std::string_view body);

/// An object of a request's JSON: null is as absent; a field of a wrong type or out of range is an ApiError
/// that names it.
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

/// What a field may be besides its type.
struct FieldRule {
  double least = -std::numeric_limits<double>::infinity();  ///< of a number, or of each of several
  double most = std::numeric_limits<double>::infinity();
  std::vector<const char*> words = {};  ///< of a text: the only ones that it may be
  const char* required = nullptr;       ///< what is expected in the place of nothing; null: it may be absent
  std::size_t items = 0;                ///< of an array or object, at most; beyond, 413; 0: any number
  std::size_t bytes = 0;                ///< of a text, or of each of several
  const char* schema = nullptr;         ///< more of it, as JSON Schema, for the description alone
};

/// A field as the documentation has it.
struct FieldNote {
  std::string name, type, note;  ///< a type of JSON Schema; `any` where there are several
  FieldRule rule = {};
  Json fallback = {};                   ///< its value where it is absent; null: none
  std::vector<FieldNote> members = {};  ///< of an object
};

class Fields {
 public:
  /// A walk describes what it passes.
  Fields() = default;
  /// A walk reads from `object`, which must outlive this. `strict`: every field of it must be known; else
  /// others are ignored, but for one that is spelled almost as one that exists.
  Fields(const RequestObject& object, bool strict) : object_(&object), strict_(strict) {}

  // What is absent or null keeps its value, which the description names as its default. Throws ApiError that
  // names a field of a wrong type, out of range, or missing.
  void operator()(const char* name, bool& value, std::string_view note);
  void operator()(const char* name, std::optional<bool>& value, std::string_view note);
  void operator()(const char* name, std::int64_t& value, std::string_view note, const FieldRule& rule);
  void operator()(const char* name, std::optional<std::int64_t>& value, std::string_view note,
                  const FieldRule& rule);
  void operator()(const char* name, double& value, std::string_view note, const FieldRule& rule);
  void operator()(const char* name, std::optional<double>& value, std::string_view note,
                  const FieldRule& rule);
  void operator()(const char* name, std::string& value, std::string_view note, const FieldRule& rule = {});
  void operator()(const char* name, std::optional<std::string>& value, std::string_view note,
                  const FieldRule& rule = {});
  /// A text, or an array of texts.
  void operator()(const char* name, std::vector<std::string>& values, std::string_view note,
                  const FieldRule& rule = {});
  void operator()(const char* name, std::vector<std::int64_t>& values, std::string_view note,
                  const FieldRule& rule);
  void operator()(const char* name, std::vector<double>& values, std::string_view note,
                  const FieldRule& rule);

  // Values that their users take apart; null where they are absent.
  void any(const char* name, const Json*& value, std::string_view note, const FieldRule& rule = {});
  void object(const char* name, const Json*& value, std::string_view note, const FieldRule& rule = {});
  void array(const char* name, const Json*& value, std::string_view note, const FieldRule& rule = {});

  /// An object whose fields `walk` passes; in a description in any case. Returns whether it is there.
  bool members(const char* name, std::string_view note, FunctionRef<void(Fields& members)> walk);
  /// An array of objects, each of whose fields `walk` passes; in a description those of one.
  void each(const char* name, std::string_view note, std::size_t most,
            FunctionRef<void(Fields& element)> walk);
  /// A field of other servers that would change the answer: only what turns it off is accepted, `off` or an
  /// empty array. `instead` tells what there is.
  void refused(const char* name, const char* instead, const Json& off = false);

  /// After the walk. Throws ApiError for a field that is not known.
  void require_known() const;
  /// Of the object that is read: for what depends on several fields, or on the model.
  [[noreturn]] void fail(std::string_view name, std::string_view expected) const {
    object_->fail(name, expected);
  }
  /// Null for a walk that describes.
  const RequestObject* reads() const { return object_; }
  const std::vector<FieldNote>& notes() const { return notes_; }

 private:
  bool is_given(const char* name, const char* type, std::string_view note, const FieldRule& rule,
                Json fallback = {});
  void require_size(const char* name, const FieldRule& rule) const;

  const RequestObject* object_ = nullptr;
  bool strict_ = false;
  std::vector<FieldNote> notes_;     // of a description
  std::vector<std::string> passed_;  // names, of a reading
};

}  // namespace heed::server
