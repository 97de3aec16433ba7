// signvote report

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/files.h"
#include "base/text.h"
#include "cli/commands.h"
#include "report/comparison_formats.h"
#include "run/compare.h"
#include "signvote/error.h"

namespace signvote::cli {
namespace {

namespace fs = std::filesystem;

struct ReportFlags {
  std::vector<fs::path> runs{};
  std::string out{};
  std::string format{};

  /// Of the file's ending, if it is not given.
  std::string chosen_format() const {
    if (!format.empty()) return format;
    const std::string ending = fs::path(out).extension().string();
    return ending == ".md" ? "md" : ending == ".csv" ? "csv" : "html";
  }

  int go() const {
    const std::string kind = chosen_format();
    if (kind == "html" && out.empty())
      throw ConfigError("a page needs a file: add --out report.html, or take --format md or csv");
    const Comparison comparison = compare_runs(runs);
    const std::string text = kind == "html" ? comparison_html(comparison)
                             : kind == "md" ? comparison_markdown(comparison)
                                            : comparison_csv(comparison);
    if (out.empty()) {
      fmt::print("{}", text);
      return 0;
    }
    write_file_atomically(out, text);
    fmt::print("report     {} ({})\n", out, counted(runs_of(comparison).size(), "run"));
    return 0;
  }
};

}  // namespace

void add_report(CLI::App& app, Action& action) {
  const auto flags = std::make_shared<ReportFlags>();
  CLI::App* report = app.add_subcommand("report", "Compare runs in a page to hand on");
  report->footer(
      "Shows which settings differ, accuracy and loss over rounds and over traffic, what it took to 90, 95\n"
      "and 98 %, whom the vote trusts, and how to repeat each run. The page is one file that needs nothing\n"
      "else. Runs that differ in their seeds alone are shown as one, with their mean. It changes nothing of\n"
      "the runs, and may be used while they go on.\n\n"
      "Examples:\n"
      "  signvote report runs/first runs/second --out report.html\n"
      "  signvote report runs/figure1 --out figure1.html      (all cells of signvote reproduce)\n"
      "  signvote report runs/first --format md\n"
      "  signvote report runs/* --out runs.csv                (a line for each run)");
  report
      ->add_option("runs", flags->runs,
                   "Runs' folders, servers' --state, or --out folders of signvote reproduce")
      ->required()
      ->type_name("DIR");
  report->add_option("--out", flags->out, "File to write [md and csv: stdout]")->type_name("FILE");
  report->add_option("--format", flags->format, "html, md or csv [by the ending of --out, else html]")
      ->check(CLI::IsMember({"html", "md", "csv"}).description(""))
      ->type_name("TEXT");
  report->callback([=, &action] { action = [flags] { return flags->go(); }; });
}

}  // namespace signvote::cli
