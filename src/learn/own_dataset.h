// A user's own data set. It is one of these:
//
//   DIR/train_x.npy, train_y.npy, test_x.npy, test_y.npy     arrays, a row for each sample; or tensors (.pt)
//   DIR/train/CLASS/*.png (or .jpg), DIR/test/CLASS/*.png    images, a folder for each class
//   DIR/*train-images*idx*, *train-labels*idx*,              IDX files of any shape
//       *t10k-* or *test-images*idx*, ...-labels*idx*
//   FILE.txt                                                 a text for next-token training, bytes as tokens
//
// x of bytes is scaled to [0, 1] and normalised by the mean and deviation that each channel has in the
// training set. x of float32 is taken as it is. Does not use torch.
#pragma once

#include <filesystem>
#include <string>

#include "learn/dataset.h"

namespace signvote {

inline constexpr std::size_t kMostClasses = 1'000'000;

/// Throws DataError that names the file, the row or offset, and the reason.
Dataset load_own_dataset(const std::string& name, const std::filesystem::path& path, std::size_t context);

/// The images of a folder with a folder for each class, in the order of their names. All are of the size and
/// the number of channels (1 or 3) of the first; an alpha channel is left out.
Samples load_image_folder(const std::filesystem::path& folder, const std::vector<std::string>& classes);

/// The samples' y are checked to be classes, and counted. 0 if y is of floats.
std::size_t count_classes(const Samples& train, const std::filesystem::path& train_path, const Samples& test,
                          const std::filesystem::path& test_path);

/// Measures mean and deviation over the training set's bytes.
void measure_normalisation(Dataset& dataset);

}  // namespace signvote
