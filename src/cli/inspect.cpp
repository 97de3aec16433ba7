// signvote inspect

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "run/audit.h"

namespace signvote::cli {
namespace {

namespace fs = std::filesystem;

struct InspectFlags {
  fs::path run{};
  std::string out{};
  bool json = false;

  InspectCommand read() const {
    InspectCommand command{fs::exists(run / "journal") ? load_server_run(run) : load_run(run), run, {}, json};
    if (!out.empty() || !json) command.out = out.empty() ? run : fs::path(out);
    return command;
  }
};

}  // namespace

void add_inspect(CLI::App& app, const Computing& computing, Action& action) {
  const auto flags = std::make_shared<InspectFlags>();
  CLI::App* inspect = app.add_subcommand("inspect", "Show whom the vote of a run has learnt to trust");
  inspect->footer(
      "It reads what the run has saved, finished or not, changes nothing of it, and may be used while the "
      "run\n"
      "goes on. It prints a line for each worker and draws inspect.png: with it and shrink how often each\n"
      "worker is wrong in each layer, with agree how often each two workers agree.\n\n"
      "  batch    samples a round, the mean\n"
      "  rounds   in which it took part\n"
      "  p        its error rate: how often the tally thinks its signs are wrong, the mean over coordinates\n"
      "  weight   of its vote, ln((1 - p)/p), the mean over coordinates; negative: its signs are turned "
      "round\n"
      "  say      its share of all workers' weights (their magnitudes) in the next round\n\n"
      "  liar?    it is wrong more often than right: its weight is below -0.1, its p above 0.525\n"
      "  guesses  its signs say next to nothing: its weight is within 0.1 of zero\n"
      "  new      it has taken part in fewer than --initial-rounds rounds, and has no weight yet\n\n"
      "Examples:\n  signvote inspect runs/first\n  signvote inspect runs/elastic --json --out /tmp/picture");
  inspect->add_option("run", flags->run, "A run's folder, or a server's --state")
      ->required()
      ->type_name("DIR");
  inspect->add_option("--out", flags->out, "Folder for inspect.png [the run's; with --json none]")
      ->type_name("DIR");
  inspect->add_flag("--json", flags->json, "Print JSON instead of a table, with the picture's numbers");
  inspect->callback([=, &computing, &action] {
    action = [flags, &computing] { return computing.inspect(flags->read()); };
  });
}

}  // namespace signvote::cli
