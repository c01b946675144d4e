#include "guards/replay.h"

#include <array>
#include <string>
#include <vector>

namespace hotstart::guards {
namespace {

constexpr std::size_t kMaxCallArguments = 20;

// One replay: the nodes made so far and, for each operation, the methods found so far.
class Replay {
 public:
  Replay(const Plan& plan, PyObject* values, PyObject* texts, const TreeFace& face)
      : reader_(plan), values_(values), texts_(texts), face_(face) {
    nodes_.reserve(plan.node_count);
    methods_.resize(reader_.operations().size());
  }

  // The root goes last: a node's Python object must not outlive the tree, since the next node at
  // its address would get that object.
  ~Replay() {
    while (!nodes_.empty()) nodes_.pop_back();
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  Ref run(Status& status);

 private:
  // Methods differ between the three classes.
  enum NodeClass : std::uint8_t { kRoot, kManager, kDictManager };
  static constexpr std::size_t kClasses = 3;

  struct Node {
    Ref object;
    Ref source;  // str
    NodeClass type;
    std::uint8_t flags;
  };

  // Borrowed arguments of one call; `owned` keeps what was made for it.
  struct Call {
    std::array<PyObject*, kMaxCallArguments> arguments;
    std::size_t size = 0;
    std::array<Ref, 4> owned;
    std::size_t owned_size = 0;

    void add(PyObject* argument) { arguments[size++] = argument; }
  };

  bool make_root();
  bool make_node(const Step& step);
  bool add_guard(const Step& step);
  bool fill(const Operation& operation, const Step& step, Call& call);
  bool add_nodes(const Step& step, std::size_t& used, std::size_t count, Call& call);
  bool add_texts(ArgKind kind, Call& call);
  bool mark_nodes();
  Ref source_of(const Step& step);
  PyObject* example_of(const Step& step);
  PyObject* method(std::uint32_t operation, NodeClass type);
  PyObject* class_of(NodeClass type) const;
  PyObject* value(std::uint32_t index) const { return PyTuple_GET_ITEM(values_, index); }

  TapeReader reader_;
  PyObject* values_;
  PyObject* texts_;
  const TreeFace& face_;
  std::vector<Node> nodes_;
  std::vector<std::array<Ref, kClasses>> methods_;
  Py_ssize_t texts_used_ = 0;
  Ref object_, dict_, no_texts_;
};

Ref Replay::run(Status& status) {
  if (!make_root()) return {};
  Step step;
  while (reader_.next(step)) {
    const Shape shape = reader_.operations()[step.operation].shape;
    const bool makes_node = shape == Shape::kAccessor || shape == Shape::kKeyedAccessor;
    if (!(makes_node ? make_node(step) : add_guard(step))) return {};
  }
  if (!reader_.ok()) {
    status = reader_.status();
    return {};
  }
  if (!mark_nodes()) return {};
  Ref all = Ref::steal(PyList_New(static_cast<Py_ssize_t>(nodes_.size())));
  for (std::size_t i = 0; all && i < nodes_.size(); ++i)
    PyList_SET_ITEM(all.get(), static_cast<Py_ssize_t>(i), nodes_[i].object.release());
  return all;
}

bool Replay::make_root() {
  object_ = Ref::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  dict_ = Ref::steal(PyDict_New());
  no_texts_ = Ref::steal(PyList_New(0));
  Ref root = Ref::steal(PyObject_CallNoArgs(face_.root_class));
  Ref source = Ref::steal(PyUnicode_FromString(""));
  if (!object_ || !dict_ || !no_texts_ || !root || !source) return false;
  nodes_.push_back({std::move(root), std::move(source), kRoot, 0});
  return true;
}

bool Replay::make_node(const Step& step) {
  Node& receiver = nodes_[step.receiver];
  PyObject* called = method(step.operation, receiver.type);
  if (!called) return false;
  Ref source = source_of(step);
  if (!source) return false;
  const bool is_dict = (step.flags & kIsDictManager) != 0;
  Call call;
  call.add(receiver.object.get());
  if (reader_.operations()[step.operation].shape == Shape::kKeyedAccessor)
    call.add(value(step.key));
  call.add(source.get());
  call.add(example_of(step));
  call.add(is_dict ? face_.dict_manager_kind : face_.manager_kind);
  Ref made = Ref::steal(PyObject_Vectorcall(called, call.arguments.data(), call.size, nullptr));
  if (!made) return false;
  nodes_.push_back(
      {std::move(made), std::move(source), is_dict ? kDictManager : kManager, step.flags});
  return true;
}

bool Replay::add_guard(const Step& step) {
  const Operation& operation = reader_.operations()[step.operation];
  Call call;
  PyObject* called = nullptr;
  if (operation.shape == Shape::kLeaf) {
    Node& receiver = nodes_[step.receiver];
    called = method(step.operation, receiver.type);
    call.add(receiver.object.get());
  } else {
    called = method(step.operation, kRoot);
  }
  if (!called || !fill(operation, step, call)) return false;
  const Ref done =
      Ref::steal(PyObject_Vectorcall(called, call.arguments.data(), call.size, nullptr));
  return static_cast<bool>(done);
}

bool Replay::fill(const Operation& operation, const Step& step, Call& call) {
  std::size_t nodes_used = 0;
  for (std::size_t i = 0; i < operation.arguments.size(); ++i) {
    const auto kind = static_cast<ArgKind>(operation.arguments[i]);
    const std::uint32_t number = step.arguments[i];
    switch (kind) {
      case ArgKind::kValue:
        call.add(value(number));
        break;
      case ArgKind::kSource:
        // Functions have no receiver; their step names the root.
        call.add(nodes_[step.receiver].source.get());
        break;
      case ArgKind::kNode:
        call.add(nodes_[number].object.get());
        break;
      case ArgKind::kNodes:
        if (!add_nodes(step, nodes_used, number, call)) return false;
        break;
      case ArgKind::kMessages:
      case ArgKind::kStack:
        if (!add_texts(kind, call)) return false;
        break;
    }
  }
  return true;
}

bool Replay::add_nodes(const Step& step, std::size_t& used, std::size_t count, Call& call) {
  if (call.owned_size == call.owned.size()) {
    PyErr_SetString(PyExc_ValueError, "a guard over too many lists of nodes");
    return false;
  }
  Ref list = Ref::steal(PyList_New(static_cast<Py_ssize_t>(count)));
  if (!list) return false;
  for (std::size_t i = 0; i < count; ++i) {
    PyObject* node = nodes_[step.nodes[used++]].object.get();
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), Py_NewRef(node));
  }
  call.add(list.get());
  call.owned[call.owned_size++] = std::move(list);
  return true;
}

// A guard's messages come before its stack.
bool Replay::add_texts(ArgKind kind, Call& call) {
  if (!texts_) {
    call.add(kind == ArgKind::kMessages ? no_texts_.get() : Py_None);
    return true;
  }
  const bool messages = kind == ArgKind::kMessages;
  if (messages) ++texts_used_;
  PyObject* pair = texts_used_ > 0 && texts_used_ <= PyTuple_GET_SIZE(texts_)
                       ? PyTuple_GET_ITEM(texts_, texts_used_ - 1)
                       : nullptr;
  if (!pair || !PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
    PyErr_SetString(PyExc_ValueError, "a guard plan lacks texts");
    return false;
  }
  call.add(PyTuple_GET_ITEM(pair, messages ? 0 : 1));
  return true;
}

bool Replay::mark_nodes() {
  for (const Node& node : nodes_) {
    for (const auto& [bit, name] :
         {std::pair{kTagSafe, "mark_tag_safe"}, std::pair{kTagSafeRoot, "mark_tag_safe_root"}}) {
      if ((node.flags & bit) == 0) continue;
      const Ref done = Ref::steal(PyObject_CallMethod(node.object.get(), name, nullptr));
      if (!done) return false;
    }
  }
  return true;
}

Ref Replay::source_of(const Step& step) {
  PyObject* base = nodes_[step.receiver].source.get();
  PyObject* suffix = value(step.suffix);
  const Py_ssize_t kept = PyUnicode_GET_LENGTH(base) - static_cast<Py_ssize_t>(step.cut);
  if (!PyUnicode_Check(suffix) || kept < 0) {
    PyErr_SetString(PyExc_ValueError, "a source that a guard plan cannot spell");
    return {};
  }
  if (kept == 0) return Ref::share(suffix);
  const Ref prefix = Ref::steal(PyUnicode_Substring(base, 0, kept));
  return prefix ? Ref::steal(PyUnicode_Concat(prefix.get(), suffix)) : Ref();
}

PyObject* Replay::example_of(const Step& step) {
  switch (static_cast<Example>(step.flags & kExampleMask)) {
    case Example::kNone:
      return Py_None;
    case Example::kObject:
      return object_.get();
    case Example::kDict:
      return dict_.get();
    case Example::kTensor:
      return face_.tensor;
    case Example::kValue:
      return value(step.example);
  }
  return Py_None;
}

PyObject* Replay::method(std::uint32_t operation, NodeClass type) {
  Ref& found = methods_[operation][type];
  if (!found) {
    const Operation& called = reader_.operations()[operation];
    const bool is_function = called.shape == Shape::kFunction;
    const std::string name(called.name);
    found = Ref::steal(
        PyObject_GetAttrString(is_function ? face_.functions : class_of(type), name.c_str()));
  }
  return found.get();
}

PyObject* Replay::class_of(NodeClass type) const {
  switch (type) {
    case kRoot:
      return face_.root_class;
    case kManager:
      return face_.manager_class;
    case kDictManager:
      return face_.dict_manager_class;
  }
  return nullptr;
}

}  // namespace

Ref replay(const Plan& plan, PyObject* values, PyObject* texts, const TreeFace& face,
           Status& status) {
  if (static_cast<std::size_t>(PyTuple_GET_SIZE(values)) != plan.value_count) {
    status = Status::corrupt(8, "a guard plan with another number of values than it says");
    return {};
  }
  return Replay(plan, values, texts, face).run(status);
}

}  // namespace hotstart::guards
