// The networks against plain functional twins; replicas, evaluation and model files around them.
#include "learn/models.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <stdlib.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <numeric>
#include <random>
#include <set>

#include "base/files.h"
#include "learn/batch.h"
#include "learn/evaluate.h"
#include "learn/model_file.h"
#include "signvote/error.h"
#include "temporary_folder.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;
namespace F = torch::nn::functional;

Shape shape(std::size_t channels, std::size_t side) { return {channels, side, side}; }
const Shape kMnist = shape(1, 28);
const Shape kCifar10 = shape(3, 32);

// Each image of a brightness and contrast of its own, so that they are not all taken for the same class.
Samples random_images(std::size_t channels, std::size_t side, std::size_t count, unsigned seed) {
  Samples images;
  images.shape = shape(channels, side);
  std::mt19937 source(seed);
  for (std::size_t i = 0; i < count; ++i) {
    images.labels.push_back(static_cast<std::uint8_t>(source() % 10));
    for (std::size_t c = 0; c < channels; ++c) {
      const unsigned level = source() % 200;
      const unsigned contrast = 1 + source() % (256 - level);
      for (std::size_t p = 0; p < side * side; ++p)
        images.bytes.push_back(static_cast<std::uint8_t>(level + source() % contrast));
    }
  }
  return images;
}

Dataset random_dataset(std::size_t channels, std::size_t side, std::size_t train, std::size_t test) {
  Dataset dataset;
  dataset.classes = 10;
  dataset.mean = {0.4F, 0.5F, 0.6F};
  dataset.deviation = {0.2F, 0.25F, 0.3F};
  dataset.train = random_images(channels, side, train, 1);
  dataset.test = random_images(channels, side, test, 2);
  return dataset;
}

torch::Tensor all_images(const Dataset& dataset, const Samples& images) {
  std::vector<Pick> picks(images.count());
  for (std::uint32_t i = 0; i < picks.size(); ++i) picks[i].index = i;
  return BatchReader(dataset, images).read(picks).x.clone();
}

std::vector<std::uint32_t> bits_of(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.detach().contiguous().to(torch::kFloat32);
  const float* begin = flat.data_ptr<float>();
  std::vector<std::uint32_t> bits;
  for (std::int64_t i = 0; i < flat.numel(); ++i) bits.push_back(std::bit_cast<std::uint32_t>(begin[i]));
  return bits;
}

std::vector<std::uint32_t> bits_of(const std::vector<torch::Tensor>& tensors) {
  std::vector<std::uint32_t> bits;
  for (const torch::Tensor& tensor : tensors) {
    const auto more = bits_of(tensor);
    bits.insert(bits.end(), more.begin(), more.end());
  }
  return bits;
}

std::vector<std::uint32_t> bits_of(Replicas& replicas) { return bits_of(replicas.net(0).parameters()); }

std::int64_t parameter_count(const std::string& model, const Shape& images) {
  std::int64_t total = 0;
  for (const auto& parameter : make_net(model, images, 10, 0)->parameters()) total += parameter.numel();
  return total;
}

class Models : public testing::Test {
 protected:
  Models() { use_one_torch_thread(); }
};
class Evaluate : public Models {};

TEST_F(Models, parameter_counts) {
  EXPECT_EQ(parameter_count("cnn", kMnist), 582'026);  // the paper's
  EXPECT_EQ(parameter_count("cnn", kCifar10),
            (32 * 3 * 25 + 32) + (64 * 32 * 25 + 64) + (512 * 64 * 5 * 5 + 512) + (10 * 512 + 10));
  // He et al.'s 0.27M and 0.85M. Shortcuts have no parameters; option B's would add 2,752.
  const auto resnet = [](int n) {
    const auto conv = [](int in, int out) { return 9 * in * out + 2 * out; };  // and its BatchNorm
    return conv(3, 16) + 2 * n * conv(16, 16) + conv(16, 32) + (2 * n - 1) * conv(32, 32) + conv(32, 64) +
           (2 * n - 1) * conv(64, 64) + (10 * 64 + 10);
  };
  EXPECT_EQ(parameter_count("resnet20", kCifar10), resnet(3));
  EXPECT_EQ(parameter_count("resnet56", kCifar10), resnet(9));
  EXPECT_EQ(resnet(3), 269'722);
  EXPECT_EQ(resnet(9), 853'018);
}

TEST_F(Models, equal_seeds_give_equal_parameters) {
  for (const char* model : kModelNames) {
    const auto of_seed = [model](std::uint64_t seed) {
      return bits_of(make_net(model, shape(3, 16), 10, seed)->parameters());
    };
    EXPECT_EQ(of_seed(7), of_seed(7)) << model;
    EXPECT_NE(of_seed(7), of_seed(8)) << model;
  }
}

TEST_F(Models, what_cannot_be_made_is_refused) {
  EXPECT_THROW(make_net("vgg", kMnist, 10, 0), ConfigError);
  EXPECT_THROW(make_net("cnn", shape(1, 15), 10, 0), ConfigError);
  EXPECT_THROW(make_net("cnn", {28, 28}, 10, 0), ConfigError);
  EXPECT_THROW(make_net("cnn", kMnist, 0, 0), ConfigError);
  EXPECT_NO_THROW(make_net("cnn", {2, 16, 40}, 10, 0)->forward(torch::zeros({2, 2, 16, 40})));
  EXPECT_NO_THROW(make_net("cnn", shape(1, 16), 10, 0)->forward(torch::zeros({2, 1, 16, 16})));
}

TEST_F(Models, only_the_resnets_use_batch_norm) {
  EXPECT_FALSE(make_net("cnn", kMnist, 10, 0)->uses_batch_norm());
  EXPECT_TRUE(make_net("resnet20", kCifar10, 10, 0)->uses_batch_norm());
}

// The paper's order: convolution, ReLU, pooling.
TEST_F(Models, cnn_is_the_papers_network) {
  for (const Shape& images : {kMnist, kCifar10}) {
    const auto net = make_net("cnn", images, 10, 5);
    const auto p = net->named_parameters();
    const auto side = static_cast<std::int64_t>(images[1]);
    const torch::Tensor input = torch::randn({6, static_cast<std::int64_t>(images[0]), side, side});
    torch::Tensor x =
        torch::max_pool2d(torch::relu(torch::conv2d(input, p["conv1.weight"], p["conv1.bias"])), 2);
    x = torch::max_pool2d(torch::relu(torch::conv2d(x, p["conv2.weight"], p["conv2.bias"])), 2);
    x = torch::relu(torch::linear(x.reshape({6, -1}), p["fc1.weight"], p["fc1.bias"]));
    x = torch::linear(x, p["fc2.weight"], p["fc2.bias"]);
    for (const auto format : {torch::MemoryFormat::Contiguous, torch::MemoryFormat::ChannelsLast})
      EXPECT_TRUE(torch::allclose(net->forward(input.contiguous(format)), x, 1e-4, 1e-5));
  }
}

// He et al., section 4.2: where the picture halves, the shortcut takes every second pixel and puts
// zeros around the channels.
TEST_F(Models, resnet_is_hes_network) {
  const auto net = make_net("resnet20", kCifar10, 10, 5);
  {
    const torch::NoGradGuard no_grad;  // or BatchNorm's scales are all 1, and its offsets 0
    for (auto& parameter : net->parameters()) parameter.add_(0.1 * torch::randn_like(parameter));
  }
  net->train();
  const auto p = net->named_parameters();
  const auto conv_norm = [&p](const torch::Tensor& x, const std::string& block, const std::string& n,
                              int stride) {
    const torch::Tensor y = torch::conv2d(x, p[block + "conv" + n + ".weight"], {}, stride, 1);
    const torch::Tensor mean = y.mean({0, 2, 3}, true);
    const torch::Tensor variance = (y - mean).pow(2).mean({0, 2, 3}, true);
    return (y - mean) / torch::sqrt(variance + 1e-5) *
               p[block + "bn" + n + ".weight"].reshape({1, -1, 1, 1}) +
           p[block + "bn" + n + ".bias"].reshape({1, -1, 1, 1});
  };
  const torch::Tensor input = torch::randn({4, 3, 32, 32});
  torch::Tensor x = torch::relu(conv_norm(input, "", "1", 1));
  for (const int stage : {1, 2, 3})
    for (const int i : {0, 1, 2}) {
      const std::string block = "layer" + std::to_string(stage) + "_" + std::to_string(i) + ".";
      const bool halves = stage > 1 && i == 0;
      torch::Tensor y = conv_norm(torch::relu(conv_norm(x, block, "1", halves ? 2 : 1)), block, "2", 1);
      torch::Tensor shortcut = x;
      if (halves) {
        const torch::Tensor thinned = torch::max_pool2d(x, 1, 2);
        shortcut = torch::zeros_like(y);
        shortcut.narrow(1, x.size(1) / 2, x.size(1)).copy_(thinned);
      }
      x = torch::relu(y + shortcut);
    }
  EXPECT_EQ(x.sizes().vec(), (std::vector<std::int64_t>{4, 64, 8, 8}));
  const torch::Tensor expected = torch::linear(x.mean({2, 3}), p["fc.weight"], p["fc.bias"]);
  EXPECT_TRUE(torch::allclose(net->forward(input), expected, 1e-3, 1e-3));
}

TEST_F(Models, replicas_share_their_parameters) {
  for (const char* model : {"cnn", "resnet20"}) {
    Replicas replicas(model, shape(3, 16), 10, 4, 3);
    EXPECT_EQ(replicas.count(), 3U);
    EXPECT_EQ(bits_of(replicas), bits_of(make_net(model, shape(3, 16), 10, 4)->parameters()))
        << "the seed's, in order";
    const torch::Tensor input = torch::randn({4, 3, 16, 16});
    const torch::Tensor before = replicas.net(0).forward(input);
    for (float& x : replicas.parameters()) x -= 0.01F;
    const torch::Tensor after = replicas.net(0).forward(input);
    EXPECT_FALSE(torch::allclose(after, before));
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(bits_of(replicas.net(i).forward(input)), bits_of(after)) << i;
  }
}

TEST_F(Models, replicas_have_their_own_gradients) {
  Replicas replicas("cnn", shape(1, 16), 10, 4, 3);
  replicas.net(1).forward(torch::randn({4, 1, 16, 16})).sum().backward();
  EXPECT_EQ(replicas.gradient(1).numel(), static_cast<std::int64_t>(replicas.size()));
  EXPECT_GT(replicas.gradient(1).abs().sum().item<float>(), 0);
  for (const std::size_t other : {0U, 2U})
    EXPECT_EQ(replicas.gradient(other).abs().sum().item<float>(), 0) << other;
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : replicas.net(1).parameters()) gradients.push_back(parameter.grad());
  EXPECT_EQ(bits_of(gradients), bits_of(replicas.gradient(1)));
}

TEST_F(Models, coordinates_are_named_by_their_parameter) {
  Replicas replicas("cnn", shape(1, 16), 10, 4, 1);
  std::size_t at = 0;
  for (const auto& parameter : replicas.net(0).named_parameters()) {
    const auto n = static_cast<std::size_t>(parameter.value().numel());
    EXPECT_EQ(replicas.coordinate_name(at), parameter.key() + "[0]");
    EXPECT_EQ(replicas.coordinate_name(at + n - 1), parameter.key() + "[" + std::to_string(n - 1) + "]");
    at += n;
  }
  EXPECT_EQ(at, replicas.size());
}

// A test set of 300 makes two batches.
const Dataset& test_dataset(const std::string& model) {
  static const Dataset cnn = random_dataset(1, 16, 40, 300);
  static const Dataset resnet = random_dataset(3, 8, 600, 300);
  return model == "cnn" ? cnn : resnet;
}

struct Stage {
  const Dataset& dataset;
  ThreadPool pool;
  Replicas replicas;

  Stage(const std::string& model, std::size_t threads)
      : dataset(test_dataset(model)),
        pool(threads, use_one_torch_thread),
        replicas(model, dataset.train.shape, dataset.classes, 8, threads) {
    for (float& x : replicas.parameters()) x *= 3;  // so that predictions differ
    estimate_batch_norm(dataset, replicas, pool);
  }
};

TEST_F(Evaluate, like_plain_torch) {
  for (const char* model : {"cnn", "resnet20"}) {
    Stage stage(model, 2);
    const Evaluation result = evaluate(stage.dataset, stage.replicas, stage.pool);
    const Samples& test = stage.dataset.test;
    const torch::NoGradGuard no_grad;
    stage.replicas.net(0).eval();
    const torch::Tensor logits = stage.replicas.net(0).forward(all_images(stage.dataset, test));
    const torch::Tensor labels =
        torch::from_blob(const_cast<std::int64_t*>(test.labels.data()), {300}, torch::kInt64)
            .to(torch::kInt64);
    std::vector<std::uint64_t> confusion(100);
    for (std::int64_t i = 0; i < 300; ++i)
      ++confusion[static_cast<std::size_t>(10 * labels[i].item<int>() + logits[i].argmax().item<int>())];
    EXPECT_EQ(result.samples, 300U);
    EXPECT_EQ(result.confusion, confusion) << model;
    EXPECT_NEAR(result.loss, F::cross_entropy(logits, labels).item<double>(), 1e-4);
    EXPECT_EQ(result.correct, static_cast<std::uint64_t>(logits.argmax(1).eq(labels).sum().item<int>()));
    EXPECT_DOUBLE_EQ(result.accuracy().value(), static_cast<double>(result.correct) / 300);
  }
}

// Shuffled and cut anywhere, the parts' confusions add up to the whole's: nobody's result has changed.
TEST_F(Evaluate, an_images_result_depends_on_no_other) {
  for (const char* model : {"cnn", "resnet20"}) {
    Stage stage(model, 2);
    const Evaluation whole = evaluate(stage.dataset, stage.replicas, stage.pool);
    std::set<std::size_t> predicted;
    for (std::size_t i = 0; i < 100; ++i)
      if (whole.confusion[i] > 0) predicted.insert(i % 10);
    EXPECT_GE(predicted.size(), 3U) << "else this proves little";
    for (unsigned seed = 0; seed < 4; ++seed) {
      std::mt19937 source(seed);
      std::vector<std::uint32_t> order(300);
      std::iota(order.begin(), order.end(), 0U);
      std::shuffle(order.begin(), order.end(), source);
      std::vector<std::uint64_t> confusion(100);
      double loss = 0;
      for (std::size_t first = 0; first < 300;) {
        const std::size_t count =
            std::min<std::size_t>(300 - first, seed == 0 ? 300 : 1 + source() % (60 * seed));
        Dataset part = stage.dataset;
        part.test.labels.clear();
        part.test.bytes.clear();
        for (std::size_t i = first; i < first + count; ++i) {
          const auto image = stage.dataset.test.bytes_of(order[i]);
          part.test.labels.push_back(stage.dataset.test.labels[order[i]]);
          part.test.bytes.insert(part.test.bytes.end(), image.begin(), image.end());
        }
        const Evaluation result = evaluate(part, stage.replicas, stage.pool);
        for (std::size_t i = 0; i < 100; ++i) confusion[i] += result.confusion[i];
        loss += result.loss * static_cast<double>(count) / 300;
        first += count;
      }
      EXPECT_EQ(confusion, whole.confusion) << model << ", seed " << seed;
      EXPECT_NEAR(loss, whole.loss, 1e-5);
    }
  }
}

TEST_F(Evaluate, the_same_on_any_number_of_threads) {
  for (const char* model : {"cnn", "resnet20"}) {
    Stage alone(model, 1);
    const Evaluation expected = evaluate(alone.dataset, alone.replicas, alone.pool);
    const auto statistics = bits_of(alone.replicas.net(0).buffers());
    for (const std::size_t threads : {2U, 3U}) {
      Stage together(model, threads);
      const Evaluation result = evaluate(together.dataset, together.replicas, together.pool);
      EXPECT_EQ(result.confusion, expected.confusion);
      EXPECT_EQ(result.loss, expected.loss);
      for (std::size_t i = 0; i < threads; ++i)
        EXPECT_EQ(bits_of(together.replicas.net(i).buffers()), statistics) << i;
    }
  }
}

TEST_F(Evaluate, statistics_are_estimated_anew) {
  Stage stage("resnet20", 2);
  const auto parameters = bits_of(stage.replicas);
  const auto statistics = bits_of(stage.replicas.net(0).buffers());
  for (std::size_t i = 0; i < 2; ++i)
    for (auto& buffer : stage.replicas.net(i).buffers()) buffer.fill_(7);  // what training left there
  estimate_batch_norm(stage.dataset, stage.replicas, stage.pool);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(bits_of(stage.replicas.net(i).buffers()), statistics) << i;
  EXPECT_EQ(bits_of(stage.replicas), parameters);
  for (float& x : stage.replicas.parameters()) x *= 1.5F;
  estimate_batch_norm(stage.dataset, stage.replicas, stage.pool);
  EXPECT_NE(bits_of(stage.replicas.net(0).buffers()), statistics);
}

// So small a training set is one batch, and the first layer's statistics can be had directly.
TEST_F(Evaluate, statistics_are_those_of_the_training_set) {
  const Dataset dataset = random_dataset(3, 8, 40, 1);
  ThreadPool pool(2, use_one_torch_thread);
  Replicas replicas("resnet20", dataset.train.shape, 10, 6, 2);
  estimate_batch_norm(dataset, replicas, pool);
  const torch::NoGradGuard no_grad;
  const torch::Tensor x = torch::conv2d(all_images(dataset, dataset.train),
                                        replicas.net(1).named_parameters()["conv1.weight"], {}, 1, 1);
  const torch::Tensor by_channel = x.transpose(0, 1).reshape({16, -1});
  const auto buffers = replicas.net(1).named_buffers();
  EXPECT_TRUE(torch::allclose(buffers["bn1.running_mean"], by_channel.mean(1), 1e-3, 1e-4));
  EXPECT_TRUE(torch::allclose(buffers["bn1.running_var"], by_channel.var(1), 1e-3, 1e-4));
}

// --- model files ---

class StateFile : public Models {
 protected:
  fs::path path() const { return folder_ / "model.pt"; }

  template <class Call>
  std::string refusal(const Call& call) const {
    try {
      call();
    } catch (const DataError& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(path().string()), std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      return message;
    }
    return "accepted";
  }

  void write_state(const c10::IValue& value) const {
    const std::vector<char> bytes = torch::pickle_save(value);
    write(std::string(bytes.begin(), bytes.end()));
  }
  void write(const std::string& bytes) const { std::ofstream(path(), std::ios::binary) << bytes; }

 private:
  TemporaryFolder folder_;
};

// A network so small that its file can be cut in many places.
struct Tiny : Net {
  torch::nn::Linear fc{register_module("fc", torch::nn::Linear(2, 3))};
  torch::Tensor forward(torch::Tensor x) override { return fc(x); }
};

using State = c10::Dict<std::string, torch::Tensor>;

State tiny_state() {
  State state;
  state.insert("fc.weight", torch::randn({3, 2}));
  state.insert("fc.bias", torch::randn({3}));
  return state;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(StateFile, comes_back_bit_for_bit) {
  for (const char* model : {"cnn", "resnet20"}) {
    Replicas saved(model, shape(3, 16), 10, 1, 2);
    for (auto& buffer : saved.net(1).buffers())
      buffer.copy_(torch::arange(buffer.numel()).reshape(buffer.sizes()) + 5);
    save_model(saved.net(1), path());
    EXPECT_LT(fs::file_size(path()), 4 * saved.size() + 200'000) << "four bytes a parameter";
    Replicas loaded(model, shape(3, 16), 10, 2, 2);
    EXPECT_NE(bits_of(loaded), bits_of(saved));
    load_model(loaded.net(0), path());
    EXPECT_EQ(bits_of(loaded), bits_of(saved)) << model;
    EXPECT_EQ(bits_of(loaded.net(0).buffers()), bits_of(saved.net(1).buffers())) << model;
    EXPECT_TRUE(std::ranges::equal(loaded.parameters(), saved.parameters()))
        << "the shared buffer has it too";
  }
}

TEST_F(StateFile, a_misfit_is_named_and_changes_nothing) {
  Tiny net;
  const auto before = bits_of(net.parameters());
  const auto refuses = [&](const State& state, const std::string& what) {
    write_state(state);
    const std::string message = refusal([&] { load_model(net, path()); });
    EXPECT_TRUE(contains(message, what)) << message;
    EXPECT_EQ(bits_of(net.parameters()), before);
  };
  State state = tiny_state();
  EXPECT_EQ(state.erase("fc.bias"), 1U);
  refuses(state, "it has no 'fc.bias'");
  state.insert("fc.bias", torch::randn({4}));
  refuses(state, "its 'fc.bias' has the shape [4], not [3]");
  state = tiny_state();
  state.insert("fc.scale", torch::randn({3}));
  refuses(state, "it has 'fc.scale', which the model does not");
  refuses(State(), "it has no 'fc.weight'");
  write_state(tiny_state());
  EXPECT_NO_THROW(load_model(net, path()));
  EXPECT_NE(bits_of(net.parameters()), before);
}

TEST_F(StateFile, other_models_files_are_refused) {
  save_model(*make_net("cnn", kMnist, 10, 0), path());
  const auto other = make_net("cnn", kCifar10, 10, 0);
  const std::string message = refusal([&] { load_model(*other, path()); });
  EXPECT_TRUE(contains(message, "its 'conv1.weight' has the shape [32, 1, 5, 5], not [32, 3, 5, 5]"))
      << message;
  save_model(*make_net("resnet56", kCifar10, 10, 0), path());
  const auto small = make_net("resnet20", kCifar10, 10, 0);
  EXPECT_TRUE(contains(refusal([&] { load_model(*small, path()); }), "it has 'layer1_3."));
}

TEST_F(StateFile, what_is_no_state_is_refused) {
  Tiny net;
  const auto refuses = [&](const char* what) {
    const std::string message = refusal([&] { load_model(net, path()); });
    EXPECT_TRUE(contains(message, "is not a model")) << what << ": " << message;
    EXPECT_EQ(refusal([&] { identify_model(path()); }), message) << what;
  };
  write_state(3);
  refuses("a number");
  write_state(torch::randn({3}));
  refuses("a tensor");
  write_state(std::vector<torch::Tensor>{torch::randn({3})});
  refuses("a list");
  c10::Dict<std::string, std::string> words;
  words.insert("fc.weight", "heavy");
  write_state(words);
  refuses("words");
  c10::Dict<std::int64_t, torch::Tensor> numbered;
  numbered.insert(1, torch::randn({3}));
  write_state(numbered);
  refuses("numbers for names");
  write("");
  refuses("nothing");
  fs::remove(path());
  EXPECT_TRUE(contains(refusal([&] { load_model(net, path()); }), "No such file or directory"));
}

TEST_F(StateFile, random_bytes_are_refused) {
  Tiny net;
  EXPECT_TRUE(rc::check("with or without a zip's first bytes", [&](const std::string& bytes) {
    write(*rc::gen::element<std::string>("", "PK\3\4", "\x80\x02") + bytes);
    RC_ASSERT(contains(refusal([&] { load_model(net, path()); }), "is not a model"));
  }));
}

TEST_F(StateFile, truncations_are_refused) {
  write_state(tiny_state());
  const std::string good = read_text_file(path());
  Tiny net;
  for (std::size_t length = 0; length < good.size(); length += length + 64 < good.size() ? 7 : 1) {
    write(good.substr(0, length));
    ASSERT_TRUE(contains(refusal([&] { load_model(net, path()); }), "is not a model"))
        << length << " of " << good.size();
  }
}

// torch itself loads most of these, some with other values, and crashes on a few.
TEST_F(StateFile, a_flipped_bit_is_refused_or_harmless) {
  const State state = tiny_state();
  write_state(state);
  const std::string good = read_text_file(path());
  std::size_t refused = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string flipped = good;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
    write(flipped);
    Tiny net;
    if (refusal([&] { load_model(net, path()); }) != "accepted") {
      ++refused;
      continue;
    }
    for (const auto& parameter : net.named_parameters())
      ASSERT_TRUE(torch::equal(parameter.value(), state.at(parameter.key()))) << "byte " << i;
  }
  EXPECT_GT(refused, good.size() / 4);
}

TEST_F(StateFile, each_model_and_data_set_is_found) {
  for (const std::string model : kModelNames)
    for (const std::string dataset : kDatasetNames) {
      save_model(*make_net(model, dataset == "mnist" ? kMnist : kCifar10, 10, 3), path());
      const ModelKind kind = identify_model(path());
      EXPECT_EQ(kind.model, model);
      EXPECT_EQ(kind.dataset, dataset);
    }
  write_state(tiny_state());
  EXPECT_TRUE(contains(refusal([&] { identify_model(path()); }), "fits none of signvote's models"));
}

}  // namespace
}  // namespace signvote
