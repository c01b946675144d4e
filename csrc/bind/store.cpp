// File publishing of hotstart._core. Stateless; the GIL is released while files are written.
#include "bind/buffer.h"
#include "bind/path.h"
#include "store/publish.h"

namespace hotstart::bind {
namespace {

void publish(py::handle path, py::handle data) {
  const std::string name = fs_path(path);
  const BufferView view(data);
  Status status;
  {
    py::gil_scoped_release release;
    status = publish_file(name, view.bytes());
  }
  check(status);
}

}  // namespace

void register_store(py::module_& m) {
  m.def(
      "publish", &publish, py::arg("path"), py::arg("data"),
      "Replaces a file by `data` at once and durably: a temporary file in the same folder, fsync, "
      "rename, fsync of the folder.");
  m.attr("TEMPORARY_PREFIX") = kTemporaryPrefix;
}

}  // namespace hotstart::bind
