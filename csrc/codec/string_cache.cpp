#include <cstring>
#include <string>

#include "codec/decode.h"

namespace hotstart::codec {
namespace {

// The units of a wide string need not be aligned in the table, but CPython reads them as numbers.
Ref make_wide(Bytes data, unsigned unit) {
  std::u32string aligned((data.size() + 3) / 4, U'\0');
  std::memcpy(aligned.data(), data.data(), data.size());
  return Ref::steal(PyUnicode_FromKindAndData(static_cast<int>(unit), aligned.data(),
                                              static_cast<Py_ssize_t>(data.size() / unit)));
}

Ref make_narrow(Bytes data) {
  return Ref::steal(PyUnicode_FromKindAndData(PyUnicode_1BYTE_KIND, data.data(),
                                              static_cast<Py_ssize_t>(data.size())));
}

}  // namespace

Status StringCache::open(Bytes table) {
  if (Status status = view_.open(table); !status.ok()) return status;
  strings_ = std::vector<Ref>(view_.count());
  return {};
}

PyObject* StringCache::make(std::uint32_t index, bool intern, Status& refusal) {
  StringTableView::Entry entry;
  if (const char* wrong = view_.entry(index, entry)) {
    refusal = Status::corrupt(0, wrong);
    return nullptr;
  }
  Ref& kept = strings_[index];
  if (!kept) kept = entry.unit == 1 ? make_narrow(entry.data) : make_wide(entry.data, entry.unit);
  if (!kept) return nullptr;
  if (intern || entry.kind == StringKind::kName) {
    PyObject* text = kept.release();
    PyUnicode_InternInPlace(&text);
    kept = Ref::steal(text);
  }
  return kept.get();
}

}  // namespace hotstart::codec
