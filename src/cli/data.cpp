// signvote data fetch

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "learn/dataset.h"
#include "learn/fetch.h"

namespace signvote::cli {
namespace {

int fetch_and_tell(FetchOptions options) {
  if (options.into.empty()) options.into = dataset_cache_folder(options.name);
  options.say = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  const bool fetched = fetch_dataset(options);
  fmt::print("{} is {}in {}\n", options.name, fetched ? "" : "already ", options.into.string());
  return 0;
}

}  // namespace

void add_data(CLI::App& app, Action& action) {
  const auto options = std::make_shared<FetchOptions>();
  CLI::App* data = app.add_subcommand("data", "Get the data sets");
  data->require_subcommand(1);
  CLI::App* fetch =
      data->add_subcommand("fetch", "Download a data set into the cache, or take it from a folder");
  fetch->footer("Examples:\n  signvote data fetch mnist\n  signvote data fetch cifar10 --from ~/Downloads");
  fetch->add_option("name", options->name, fmt::format("{}", fmt::join(kDatasetNames, " or ")))
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>(kDatasetNames.begin(), kDatasetNames.end()),
                            CLI::ignore_case))
      ->type_name("");
  fetch->add_option("--from", options->from, "Take the files from this folder instead of the network")
      ->type_name("DIR");
  fetch->add_option("--mirror", options->mirror, "Download from this address instead of the official one")
      ->type_name("URL");
  fetch->add_option("--into", options->into, "Put the files here instead of the cache")->type_name("DIR");
  fetch->callback([=, &action] { action = [options] { return fetch_and_tell(*options); }; });
}

}  // namespace signvote::cli
