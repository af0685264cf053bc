// The answer of a chat in the form of OpenAI's Responses API: items (reasoning, a message, calls), whole or
// as typed events.
#pragma once

#include <string>

#include "serve/generation/text_job.h"

namespace heed::serve {

/// The shape (server::shape_schema()) of a whole answer.
std::string response_shape();

class ResponseJob : public TextJob {
 public:
  /// `request` has one choice. `told`: members of the answer that say what was asked for.
  ResponseJob(std::shared_ptr<Call> given_call, const ServedModel& given_model, TextRequest request,
              Json told);
  ~ResponseJob() override;

 protected:
  void write_begin() override;
  void write_part(std::size_t index, const Part& part) override;
  void write_end(std::size_t index, const Part& part) override;
  void write_all() override;

 private:
  void add(const std::string& item, const std::string& text);
  void open(Json item);
  void open_text(const std::string& type);
  void close();
  void add_call(const Json& call);
  void finish();
  void event(const std::string& type, Json more);
  Json at_item(Json more) const;
  Json response(const char* status) const;

  const std::string id_;
  const Json told_;
  Json output_ = Json::array();  // items; events have told of all but an open one
  bool is_open_ = false;         // the last of them
  std::int64_t events_ = 0;
};

}  // namespace heed::serve
