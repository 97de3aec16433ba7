// A small network by hand, without a framework, and data for it: what the examples train.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

constexpr std::size_t kPixels = 64;
constexpr std::size_t kHidden = 32;
constexpr std::size_t kClasses = 10;
constexpr std::size_t kParameters = kHidden * (kPixels + 1) + kClasses * (kHidden + 1);

// --- The data: ten patterns of black and white pixels. A sample is one of them with 30 % of its pixels
// flipped.

struct Sample {
  std::array<float, kPixels> pixels;
  std::size_t label;
};

class Source {
 public:
  explicit Source(std::uint64_t seed) : random_(seed) {
    std::mt19937_64 same_for_all(7);
    for (auto& pattern : patterns_)
      for (float& pixel : pattern) pixel = same_for_all() % 10 < 3 ? 1.0F : 0.0F;
  }

  Sample draw() {
    const std::size_t label = random_() % kClasses;
    Sample sample{patterns_[label], label};
    for (float& pixel : sample.pixels)
      if (random_() % 10 < 3) pixel = 1 - pixel;
    return sample;
  }

 private:
  std::mt19937_64 random_;
  std::array<std::array<float, kPixels>, kClasses> patterns_;
};

// --- The model: 64 pixels, 32 hidden units, 10 classes. All parameters lie in one array, layer after layer.

// outputs = weights * inputs + biases; the biases follow the weights in memory.
inline void layer(const float* weights, std::span<const float> inputs, std::span<float> outputs) {
  const float* biases = weights + outputs.size() * inputs.size();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = biases[i];
    for (std::size_t j = 0; j < inputs.size(); ++j) outputs[i] += weights[i * inputs.size() + j] * inputs[j];
  }
}

// Adds to a layer's gradient, given the gradient of the loss by the layer's outputs.
inline void add_layer_gradient(std::span<const float> by_outputs, std::span<const float> inputs,
                               float* gradient) {
  float* biases = gradient + by_outputs.size() * inputs.size();
  for (std::size_t i = 0; i < by_outputs.size(); ++i) {
    for (std::size_t j = 0; j < inputs.size(); ++j)
      gradient[i * inputs.size() + j] += by_outputs[i] * inputs[j];
    biases[i] += by_outputs[i];
  }
}

constexpr std::size_t kSecondLayer = kHidden * (kPixels + 1);

struct Activations {
  std::array<float, kHidden> hidden;
  std::array<float, kClasses> scores;
};

inline Activations forward(std::span<const float> model, const Sample& sample) {
  Activations a;
  layer(model.data(), sample.pixels, a.hidden);
  for (float& h : a.hidden) h = std::max(h, 0.0F);
  layer(model.data() + kSecondLayer, a.hidden, a.scores);
  return a;
}

// Returns the sample's loss.
inline double add_gradient(std::span<const float> model, const Sample& sample, std::span<float> gradient) {
  const Activations a = forward(model, sample);
  // Of the cross-entropy by the scores: softmax(scores) - label.
  std::array<float, kClasses> by_scores;
  float sum = 0;
  for (std::size_t c = 0; c < kClasses; ++c) sum += by_scores[c] = std::exp(a.scores[c]);
  for (float& p : by_scores) p /= sum;
  const double loss = -std::log(by_scores[sample.label]);
  by_scores[sample.label] -= 1;
  add_layer_gradient(by_scores, a.hidden, gradient.data() + kSecondLayer);

  std::array<float, kHidden> by_hidden{};
  for (std::size_t h = 0; h < kHidden; ++h)
    for (std::size_t c = 0; c < kClasses && a.hidden[h] > 0; ++c)
      by_hidden[h] += by_scores[c] * model[kSecondLayer + c * kHidden + h];
  add_layer_gradient(by_hidden, sample.pixels, gradient.data());
  return loss;
}

inline double accuracy(std::span<const float> model) {
  constexpr int kSamples = 5000;
  Source source(99);
  int right = 0;
  for (int i = 0; i < kSamples; ++i) {
    const Sample sample = source.draw();
    const Activations a = forward(model, sample);
    const auto best = std::max_element(a.scores.begin(), a.scores.end()) - a.scores.begin();
    if (best == static_cast<std::ptrdiff_t>(sample.label)) ++right;
  }
  return static_cast<double>(right) / kSamples;
}

inline std::vector<float> initial_model() {
  std::vector<float> model(kParameters);
  std::mt19937_64 random(1);
  for (float& x : model) x = static_cast<float>(random() % 4001) / 10000.0F - 0.2F;
  return model;
}
