// Runs gnuplot, which draws all of signvote's pictures.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace signvote {

/// A text as gnuplot's scripts have it.
std::string gnuplot_string(std::string_view text);

/// How gnuplot writes pictures, and the last bytes of a complete one.
struct PictureFormat {
  std::string_view terminal;
  std::string_view ending;
};
inline constexpr PictureFormat kPng = {"pngcairo background 'white'", "IEND\xAE\x42\x60\x82"};
inline constexpr PictureFormat kSvg = {"svg background 'white'", "</svg>\n\n"};

/// Draws the picture at `path` by the script that `script` gives for a file to set as output. The picture is
/// written whole or not at all. Throws DataError if gnuplot is missing (naming the Debian package) or fails.
void draw_picture(const std::filesystem::path& path, const PictureFormat& format,
                  const std::function<std::string(const std::string& output)>& script);

}  // namespace signvote
