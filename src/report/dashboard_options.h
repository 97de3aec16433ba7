// Where a dashboard listens, and what it needs for that.
#pragma once

#include <filesystem>
#include <string>

#include "report/http_server.h"

namespace signvote {

struct DashboardOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: any free one
  bool loopback = true;
  std::string certificate;       // PEM; empty: without TLS, which only loopback may be
  std::string key;               // PEM
  std::filesystem::path folder;  // the run's, for dashboard.url
  EndpointLimits limits{};
};

}  // namespace signvote
