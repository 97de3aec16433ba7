// The files of the dashboard's page, built into the program (see web/CMakeLists.txt).
#pragma once

#include <span>
#include <string_view>

namespace signvote {

struct Asset {
  std::string_view path;  // "/dashboard.js"
  std::string_view type;  // "text/javascript"
  std::string_view content;
};

/// Empty in a program that was built without the dashboard.
std::span<const Asset> dashboard_assets();

}  // namespace signvote
