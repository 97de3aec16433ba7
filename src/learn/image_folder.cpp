// The images of a folder, by libpng and libjpeg-turbo. Together they are larger than stb_image, but Debian
// keeps them: what they read is often from the internet.

#include <fmt/format.h>
#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cctype>
#include <memory>

#include "base/files.h"
#include "base/text.h"
#include "learn/own_dataset.h"
#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestSide = 16384;  // so that a forged header does not fill the memory

[[noreturn]] void refuse(const fs::path& path, const std::string& what) {
  throw DataError(fmt::format("'{}' {}", path.string(), what));
}

struct Image {
  std::size_t channels = 0;
  std::size_t height = 0;
  std::size_t width = 0;
  std::vector<std::uint8_t> pixels{};  // the channels of a pixel side by side
};

void make_room(Image& image, const fs::path& path) {
  if (image.height < 1 || image.width < 1 || image.height > kLongestSide || image.width > kLongestSide)
    refuse(path,
           fmt::format("has {} x {} pixels; 1 x 1 to 16384 x 16384 can be read", image.height, image.width));
  image.pixels.resize(image.channels * image.height * image.width);
}

Image read_png(std::span<const std::byte> file, const fs::path& path) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, decltype(&png_image_free)> freed(&png, png_image_free);
  const auto damaged = [&] { refuse(path, fmt::format("is damaged: {}", one_line(png.message))); };
  if (png_image_begin_read_from_memory(&png, file.data(), file.size()) == 0) damaged();
  Image image;
  const bool colour = (png.format & PNG_FORMAT_FLAG_COLOR) != 0;
  image.channels = colour ? 3 : 1;
  image.height = png.height;
  image.width = png.width;
  make_room(image, path);
  png.format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  const png_color black{0, 0, 0};  // behind what is transparent
  if (png_image_finish_read(&png, &black, image.pixels.data(), 0, nullptr) == 0) damaged();
  return image;
}

Image read_jpeg(std::span<const std::byte> file, const fs::path& path) {
  const std::unique_ptr<void, decltype(&tjDestroy)> jpeg(tjInitDecompress(), tjDestroy);
  if (!jpeg) throw std::bad_alloc();
  const auto* bytes = reinterpret_cast<const unsigned char*>(file.data());
  const auto damaged = [&] {
    refuse(path, fmt::format("is damaged: {}", one_line(tjGetErrorStr2(jpeg.get()))));
  };
  int width = 0, height = 0, sampling = 0, colours = 0;
  if (tjDecompressHeader3(jpeg.get(), bytes, file.size(), &width, &height, &sampling, &colours) != 0)
    damaged();
  Image image;
  image.channels = colours == TJCS_GRAY ? 1 : 3;
  image.height = static_cast<std::size_t>(height);
  image.width = static_cast<std::size_t>(width);
  make_room(image, path);
  if (tjDecompress2(jpeg.get(), bytes, file.size(), image.pixels.data(), width, 0, height,
                    image.channels == 1 ? TJPF_GRAY : TJPF_RGB, TJFLAG_ACCURATEDCT) != 0)
    damaged();
  return image;
}

/// "png" or "jpeg"; empty for all other files.
std::string kind_of(const fs::path& path) {
  std::string end = path.extension();
  std::ranges::transform(end, end.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return end == ".png" ? "png" : end == ".jpg" || end == ".jpeg" ? "jpeg" : "";
}

}  // namespace

Samples load_image_folder(const fs::path& folder, const std::vector<std::string>& classes) {
  if (classes.empty()) refuse(folder, "has no folders, one for each class");
  Samples samples;
  std::string first;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const fs::path inner = folder / classes[label];
    std::vector<fs::path> paths;
    if (fs::is_directory(inner))  // a class without test images may be left out there
      for (const fs::directory_entry& entry : fs::directory_iterator(inner))
        if (entry.is_regular_file() && !kind_of(entry.path()).empty()) paths.push_back(entry.path());
    if (paths.empty() && fs::is_directory(inner)) refuse(inner, "has no .png or .jpg image");
    std::ranges::sort(paths);
    for (const fs::path& path : paths) {
      const std::vector<std::byte> file = read_file(path);
      const Image image = kind_of(path) == "png" ? read_png(file, path) : read_jpeg(file, path);
      const Shape shape = {image.channels, image.height, image.width};
      if (samples.shape.empty()) {
        samples.shape = shape;
        first = path.string();
      }
      if (shape != samples.shape)
        refuse(path,
               fmt::format("has {} channels of {} x {} pixels, but '{}' has {} of {} x {}; all must be alike",
                           shape[0], shape[1], shape[2], first, samples.shape[0], samples.shape[1],
                           samples.shape[2]));
      for (std::size_t c = 0; c < image.channels; ++c)
        for (std::size_t at = c; at < image.pixels.size(); at += image.channels)
          samples.bytes.push_back(image.pixels[at]);
      samples.labels.push_back(static_cast<std::int64_t>(label));
    }
  }
  if (samples.labels.empty()) refuse(folder, "has no .png or .jpg image in a folder of a class");
  return samples;
}

}  // namespace signvote
