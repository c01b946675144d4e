// Runs a fuzz target without libFuzzer, so that any compiler can fuzz and replay.
//
//   fuzz_NAME [--runs N] [--seconds T] [--seed S] [--crashes DIR] PATH...
//
// Feeds the target each file of the given files and folders, then random mutations of them until N
// runs or T seconds have passed. (Without --runs and --seconds it only replays.) The input that
// makes a sanitizer or abort() end the process is left in DIR.
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
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

using Input = std::vector<std::uint8_t>;

constexpr std::size_t kLargestInput = 64 * 1024;

struct Options {
  std::uint64_t runs = 0;
  std::uint64_t seconds = 0;
  std::uint64_t seed = 1;
  std::string crashes = ".";
  std::vector<std::string> paths;
};

// -- Keeping the input that crashed

std::string crash_path;
const std::uint8_t* running_data = nullptr;
std::size_t running_size = 0;

void keep_input() {
  if (running_data == nullptr) return;
  if (std::FILE* file = std::fopen(crash_path.c_str(), "wb")) {
    std::fwrite(running_data, 1, running_size, file);
    std::fclose(file);
    std::fprintf(stderr, "the input is in %s\n", crash_path.c_str());
  }
  running_data = nullptr;
}

void on_abort(int) {
  keep_input();
  std::_Exit(1);
}

// The target sees an allocation of exactly the input's size, so that a read past it is caught.
void run(const Input& input) {
  const Input exact(input.begin(), input.end());
  running_data = exact.data();
  running_size = exact.size();
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  running_data = nullptr;
}

// -- Mutations

class Mutator {
 public:
  Mutator(const std::vector<Input>& corpus, std::uint64_t seed) : corpus_(corpus), random_(seed) {}

  Input next() {
    Input input = corpus_[below(corpus_.size())];
    const std::size_t count = std::size_t{1} << below(5);
    for (std::size_t i = 0; i < count; ++i) mutate(input);
    if (input.size() > kLargestInput) input.resize(kLargestInput);
    return input;
  }

 private:
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }
  std::uint8_t byte() { return static_cast<std::uint8_t>(random_()); }

  void mutate(Input& input) {
    if (input.empty()) input.push_back(byte());
    const std::size_t at = below(input.size());
    const std::size_t size = std::min(input.size() - at, 1 + below(8));
    switch (below(10)) {
      case 0:
      case 1:
        input[at] = static_cast<std::uint8_t>(input[at] ^ (1U << below(8)));
        break;
      case 2:
      case 3:
        input[at] = byte();
        break;
      case 4:
        input[at] = static_cast<std::uint8_t>(input[at] + below(9) - 4);
        break;
      case 5:
        overwrite(input, at);
        break;
      case 6:
        input.erase(place(input, at), place(input, at + size));
        break;
      case 7:
        input.insert(place(input, at), size, byte());
        break;
      case 8:
        copy_within(input, at, size);
        break;
      default:
        splice(input, at);
        break;
    }
  }

  static Input::iterator place(Input& input, std::size_t at) {
    return input.begin() + static_cast<std::ptrdiff_t>(at);
  }

  // The edges of integers, fixed and of variable length.
  void overwrite(Input& input, std::size_t at) {
    static constexpr std::uint64_t kEdges[] = {0,
                                               0x7f,
                                               0x80,
                                               0xff,
                                               0x7fff,
                                               0xffff,
                                               0x7fffffff,
                                               0x80000000,
                                               0xffffffff,
                                               0x0fffffffffffffff,
                                               0x7fffffffffffffff,
                                               0xffffffffffffffff,
                                               0x01ffffffffffffff,
                                               0x0f8080808080ffff};
    const std::uint64_t value = kEdges[below(std::size(kEdges))];
    const std::size_t size = std::min(input.size() - at, std::size_t{1} << below(4));
    std::memcpy(input.data() + at, &value, size);
  }

  void copy_within(Input& input, std::size_t at, std::size_t size) {
    const Input piece(place(input, at), place(input, at + size));
    const std::size_t to = below(input.size());
    if (below(2) == 0) {
      input.insert(place(input, to), piece.begin(), piece.end());
    } else {
      std::copy_n(piece.begin(), std::min(size, input.size() - to), place(input, to));
    }
  }

  // Puts a piece of another input here.
  void splice(Input& input, std::size_t at) {
    const Input& other = corpus_[below(corpus_.size())];
    if (other.empty()) return;
    const std::size_t from = below(other.size());
    const std::size_t size = std::min({other.size() - from, input.size() - at, 1 + below(64)});
    std::memcpy(input.data() + at, other.data() + from, size);
  }

  const std::vector<Input>& corpus_;
  std::mt19937_64 random_;
};

// -- The command line

std::vector<Input> read_corpus(const std::vector<std::string>& paths) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) {
      files.emplace_back(path);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(path))
      if (entry.is_regular_file() && entry.path().filename().string()[0] != '.')
        files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Input> corpus;
  for (const fs::path& file : files) {
    std::ifstream stream(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return corpus;
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (!argument.starts_with("--")) {
      options.paths.push_back(argument);
      continue;
    }
    if (++i == argc) return false;
    if (argument == "--crashes") options.crashes = argv[i];
    const std::uint64_t number = std::strtoull(argv[i], nullptr, 10);
    if (argument == "--runs") options.runs = number;
    if (argument == "--seconds") options.seconds = number;
    if (argument == "--seed") options.seed = number;
  }
  return !options.paths.empty();
}

std::uint64_t fuzz(const std::vector<Input>& corpus, const Options& options) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(options.seconds);
  Mutator mutator(corpus, options.seed);
  std::uint64_t runs = 0;
  for (; options.runs == 0 || runs < options.runs; ++runs) {
    if (options.seconds != 0 && runs % 256 == 0 && Clock::now() >= end) break;
    run(mutator.next());
  }
  return runs;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr, "usage: %s [--runs N] [--seconds T] [--seed S] [--crashes DIR] PATH...\n",
                 argv[0]);
    return 2;
  }
  const std::string name = std::filesystem::path(argv[0]).filename().string();
  crash_path = options.crashes + "/crash-" + name + "-" + std::to_string(options.seed);
  std::signal(SIGABRT, on_abort);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(keep_input);

  const std::vector<Input> corpus = read_corpus(options.paths);
  for (const Input& input : corpus) run(input);
  std::uint64_t runs = 0;
  if (!corpus.empty() && (options.runs != 0 || options.seconds != 0)) runs = fuzz(corpus, options);
  std::printf("%s: %zu files replayed, %llu mutations run, seed %llu, nothing found\n",
              name.c_str(), corpus.size(), static_cast<unsigned long long>(runs),
              static_cast<unsigned long long>(options.seed));
  return corpus.empty() ? 2 : 0;
}
