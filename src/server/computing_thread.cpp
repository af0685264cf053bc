// What becomes of a request that is computed.
#include "server/computing_thread.h"

#include <new>

#include "core/json.h"
#include "heed/canceled.h"

namespace heed::server {

ComputingThread::ComputingThread(std::size_t waiting, Compute compute)
    : compute_(std::move(compute)), worker_(waiting) {}

void ComputingThread::enqueue(HttpRequest request, std::shared_ptr<Reply> reply) {
  const bool waits =
      worker_.post([this, request = std::move(request), reply] { reply->answer(answer(request, *reply)); });
  if (!waits) reply->answer(error_response(429, "too many requests wait (try again later)"));
}

HttpResponse ComputingThread::answer(const HttpRequest& request, const Reply& reply) const {
  const auto stopping = [&] {
    return reply.has_left() ? error_response(400, "canceled: the client closed its end of the connection")
                            : error_response(503, "canceled: the server stops");
  };
  if (reply.stop()) return stopping();
  try {
    return compute_(request, reply.stop());
  } catch (const Canceled&) {
    return stopping();
  } catch (const std::bad_alloc&) {
    return error_response(500, "memory: not enough for this text (choose a shorter one)");
  } catch (const std::exception& error) {
    return error_response(500, error.what());
  }
}

HttpResponse error_response(int status, const std::string& message) {
  HttpResponse response{status, json_text(nlohmann::json{{"error", message}})};
  if (status == 429) response.headers.emplace_back("Retry-After", "1");
  return response;
}

}  // namespace heed::server
