#include <string>
#include <utility>

#include "report/metrics.h"

namespace signvote {
namespace {

HttpOptions options_of(int port, const EndpointLimits& limits) {
  HttpOptions options;
  options.port = port;
  options.what = "/metrics";
  options.flag = "--metrics-port";
  options.limits = limits;
  return options;
}

HttpAnswer answer(const HttpRequest& request, const Metrics& metrics,
                  const std::function<std::string()>& healthy) {
  if (request.is_get && request.path == "/metrics") return {200, metrics.text(), "text/plain; version=0.0.4"};
  if (request.is_get && request.path == "/healthz") {
    const std::string problem = healthy();
    if (problem.empty()) return {200, "ok\n"};
    return {503, problem + "\n"};
  }
  return {404, "there are GET /metrics and GET /healthz\n"};
}

}  // namespace

MetricsEndpoint::MetricsEndpoint(int port, const Metrics& metrics, std::function<std::string()> healthy,
                                 const EndpointLimits& limits)
    : server_(options_of(port, limits), [&metrics, healthy = std::move(healthy)](const HttpRequest& request) {
        return answer(request, metrics, healthy);
      }) {}

}  // namespace signvote
