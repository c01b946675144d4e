// A main for fuzz targets built without libFuzzer: replays files, then mutates them.
//
//   fuzz_x FILE_OR_FOLDER... [-runs=N] [-seed=S]
//
// Mutation is blind (no coverage feedback): flips, interesting numbers, cuts, repeats and splices
// of the given files. A crash leaves its input in ./crash-input.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;
constexpr std::size_t kMaxInput = 4096;

const Input* running = nullptr;

void save_crash() {
  if (running == nullptr) return;
  std::ofstream("crash-input", std::ios::binary)
      .write(reinterpret_cast<const char*>(running->data()),
             static_cast<std::streamsize>(running->size()));
}

void run(const Input& input) {
  running = &input;
  // Exactly as large as its contents, so that a sanitizer sees the first byte too far.
  const Input exact(input);
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  running = nullptr;
}

Input load(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void collect(const std::filesystem::path& path, std::vector<Input>& corpus) {
  if (!std::filesystem::is_directory(path)) {
    corpus.push_back(load(path));
    return;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) corpus.push_back(load(file));
}

class Mutator {
 public:
  Mutator(const std::vector<Input>& corpus, std::uint64_t seed) : corpus_(corpus), random_(seed) {}

  Input next() {
    Input input = pick();
    for (std::size_t i = 1 + below(4); i > 0; --i) mutate(input);
    if (input.size() > kMaxInput) input.resize(kMaxInput);
    return input;
  }

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  const Input& pick() { return corpus_[below(corpus_.size())]; }

  std::uint64_t number() {
    switch (below(4)) {
      case 0:
        return below(512);
      case 1:
        return std::uint64_t{0} - below(130);
      case 2:
        return std::uint64_t{1} << below(64);
      default:
        return random_();
    }
  }

  void overwrite(Input& input, std::size_t width) {
    if (input.size() < width) return;
    std::size_t at = below(input.size() - width + 1);
    if (below(2) == 0) at -= at % width;
    std::uint64_t value = 0;
    std::memcpy(&value, &input[at], width);
    value = below(2) == 0 ? number() : value + number() % 129 - 64;
    std::memcpy(&input[at], &value, width);
  }

  void mutate(Input& input) {
    const auto at = static_cast<std::ptrdiff_t>(below(input.size() + 1));
    switch (below(8)) {
      case 0:
        if (!input.empty()) {
          input[below(input.size())] ^= static_cast<std::uint8_t>(1U << below(8));
        }
        break;
      case 1:
        overwrite(input, 1);
        break;
      case 2:
        overwrite(input, 4);
        break;
      case 3:
        overwrite(input, 8);
        break;
      case 4:
        input.resize(static_cast<std::size_t>(at));
        break;
      case 5:
        input.insert(input.begin() + at, below(80), static_cast<std::uint8_t>(number()));
        break;
      case 6: {
        const auto end = at + static_cast<std::ptrdiff_t>(below(std::min<std::size_t>(
                                  80, input.size() + 1 - static_cast<std::size_t>(at))));
        input.erase(input.begin() + at, input.begin() + end);
        break;
      }
      default: {
        const Input& other = pick();
        const auto from = static_cast<std::ptrdiff_t>(below(other.size() + 1));
        input.resize(static_cast<std::size_t>(at));
        input.insert(input.end(), other.begin() + from, other.end());
      }
    }
  }

  const std::vector<Input>& corpus_;
  std::mt19937_64 random_;
};

}  // namespace

extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

int main(int argc, char** argv) {
  std::vector<Input> corpus;
  std::uint64_t runs = 0, seed = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with("-runs=")) {
      runs = std::strtoull(argument.c_str() + 6, nullptr, 10);
    } else if (argument.starts_with("-seed=")) {
      seed = std::strtoull(argument.c_str() + 6, nullptr, 10);
    } else {
      collect(argument, corpus);
    }
  }
  if (corpus.empty()) corpus.emplace_back();
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(save_crash);
  std::signal(SIGABRT, [](int) { save_crash(); });
  for (const Input& input : corpus) run(input);
  Mutator mutator(corpus, seed);
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < runs; ++i) run(mutator.next());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("replayed %zu files, then %llu executions in %.1f s\n", corpus.size(),
              static_cast<unsigned long long>(runs), took.count());
}
