#include "report/gnuplot.h"

#include <fmt/format.h>

#include "base/files.h"
#include "base/process.h"
#include "base/text.h"
#include "signvote/error.h"

namespace signvote {

namespace fs = std::filesystem;

// gnuplot expands nothing between single quotes. A quote is doubled; a line break is not allowed.
std::string gnuplot_string(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') result += '\'';
    result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return result + "'";
}

void draw_picture(const fs::path& path, const PictureFormat& format,
                  const std::function<std::string(const std::string& output)>& script) {
  const fs::path drawing = path.string() + ".drawing";
  std::string content;
  std::string problem;
  try {
    // -d ignores the settings in the user's home. The script is /dev/stdin and not "-", because with "-"
    // gnuplot would go on after an error.
    const ProcessResult gnuplot =
        run_process({"gnuplot", "-d", "/dev/stdin"}, path.parent_path(), script(drawing.filename().string()));
    // The ending is looked at because gnuplot does not notice a full disk.
    if (gnuplot.exit_code != 0)
      problem = fmt::format("gnuplot ended with code {}: {}", gnuplot.exit_code, one_line(gnuplot.output));
    else if (content = read_text_file(drawing); !content.ends_with(format.ending))
      problem = "gnuplot wrote half a picture; is the disk full?";
  } catch (const DataError& error) {
    problem = error.what();
  }
  std::error_code ignored;
  fs::remove(drawing, ignored);
  if (!problem.empty())
    throw DataError(fmt::format("cannot draw '{}': {}; gnuplot comes with the Debian package gnuplot-nox",
                                path.string(), problem));
  write_file_atomically(path, content);
}

}  // namespace signvote
