// Hash functions of hotstart._core. Stateless; the GIL is released for files and large inputs.
#include <vector>

#include "base/sha256.h"
#include "base/source_lines.h"
#include "base/xxh64.h"
#include "bind/buffer.h"
#include "bind/path.h"
#include "codec/encode.h"
#include "store/mapped_file.h"

namespace hotstart::bind {
namespace {

Sha256Digest digest(py::handle data, Sha256Digest (*function)(Bytes)) {
  const BufferView view(data);
  return without_gil_if_large(view.bytes().size(), [&] { return function(view.bytes()); });
}

py::bytes to_bytes(const Sha256Digest& value) {
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

py::str to_hex_str(const Sha256Digest& value) { return {to_hex(value)}; }

py::bytes code_digest(py::handle code) {
  if (!PyCode_Check(code.ptr())) throw py::type_error("expected a code object");
  Sha256Digest value;
  Status status;
  if (!codec::digest_code(code.ptr(), value, status)) {
    check(status);
    throw py::error_already_set();
  }
  return to_bytes(value);
}

std::uint64_t xxh64_of(py::handle data, std::uint64_t seed) {
  const BufferView view(data);
  return without_gil_if_large(view.bytes().size(), [&] { return xxh64(view.bytes(), seed); });
}

std::vector<LineSpan> read_spans(const py::sequence& spans) {
  std::vector<LineSpan> out;
  out.reserve(spans.size());
  for (const py::handle span : spans) {
    const auto [first, last] =
        cast_item<std::pair<std::int64_t, std::int64_t>>(span, "(first, last)");
    out.push_back({first, last});
  }
  return out;
}

py::object to_hex_list(const std::optional<std::vector<Sha256Digest>>& digests) {
  if (!digests) return py::none();
  py::list out(digests->size());
  for (std::size_t i = 0; i < digests->size(); ++i) out[i] = to_hex_str((*digests)[i]);
  return out;
}

py::object source_spans_of_bytes(py::handle data, const py::sequence& spans) {
  const auto lines = read_spans(spans);
  const BufferView view(data);
  return to_hex_list(without_gil_if_large(view.bytes().size(),
                                          [&] { return hash_source_spans(view.bytes(), lines); }));
}

py::object source_spans_of_file(py::handle path, const py::sequence& spans) {
  const auto lines = read_spans(spans);
  const std::string name = fs_path(path);
  std::optional<std::vector<Sha256Digest>> digests;
  Status status;
  {
    py::gil_scoped_release release;
    // Read, not mapped: an editor may shorten a source file in place.
    FileBytes file;
    status = read_file(name, file);
    if (status.ok()) digests = hash_source_spans(file.bytes(), lines);
  }
  check(status);
  return to_hex_list(digests);
}

}  // namespace

void register_hash(py::module_& m) {
  using py::arg;
  m.def(
      "sha256", [](py::handle data) { return to_bytes(digest(data, sha256)); }, arg("data"),
      py::pos_only(), "The SHA-256 digest of a bytes-like object.");
  m.def(
      "sha256_hex", [](py::handle data) { return to_hex_str(digest(data, sha256)); }, arg("data"),
      py::pos_only(), "The SHA-256 digest of a bytes-like object, in hexadecimal.");
  m.def(
      "_sha256_portable", [](py::handle data) { return to_bytes(digest(data, sha256_portable)); },
      arg("data"), py::pos_only(), "sha256() without the CPU's extensions, for tests.");
  m.def("_sha256_implementation", &sha256_implementation,
        "What sha256() runs on here: \"sha-ni\" or \"portable\".");
  m.def("code_digest", &code_digest, arg("code"), py::pos_only(),
        "The SHA-256 digest of what a code object does.");
  m.def("xxh64", &xxh64_of, arg("data"), arg("seed") = 0,
        "The XXH64 checksum of a bytes-like object.");
  m.def("hash_source_spans", &source_spans_of_file, arg("path"), arg("spans"),
        "SHA-256 of lines[first - 1 : last - 1] for each (first, last), or None where the file is "
        "not plain UTF-8. Use hotstart.source_hash.hash_lines().");
  m.def("hash_source_spans_bytes", &source_spans_of_bytes, arg("data"), arg("spans"),
        "hash_source_spans() of a file's bytes.");
}

}  // namespace hotstart::bind
