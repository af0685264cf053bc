// A thread that computes one answer after the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

#include "server/messages.h"
#include "server/worker.h"

namespace heed::server {

/// Computes answers one by one, in the order of their requests.
class ComputingThread {
 public:
  /// `stop`: Reply::stop(); once it is true, Canceled may be thrown.
  using Compute = std::function<HttpResponse(const HttpRequest&, const std::atomic<bool>& stop)>;
  /// `waiting`: requests that may wait.
  ComputingThread(std::size_t waiting, Compute compute);

  /// Answers 429 if too many wait.
  void enqueue(HttpRequest request, std::shared_ptr<Reply> reply);

 private:
  HttpResponse answer(const HttpRequest& request, const Reply& reply) const;

  const Compute compute_;
  Worker worker_;  // ends first
};

}  // namespace heed::server
