"""Small programs whose world depends on the environment variable ``W``: ``V`` is 1 or 2, ``K`` is
2.0 or 3.0. No source changes between the two, only what the sources see: a value that was read from
a file, a library of another version, a patch applied at start.

``WORLDS`` maps a name to the sources of the program and, where it has one, of the module that it
imports. ``fn`` is what is compiled, ``args`` makes its arguments.
"""

from __future__ import annotations

import textwrap

_HEAD = "import torch\nfrom world import V, K\n"

WORLD = """
import os
V = int(os.environ["W"])
K = 2.0 if V == 1 else 3.0
"""

WORLDS: dict[str, dict[str, str]] = {}


def _world(name: str, program: str, companion: str | None = None) -> None:
    WORLDS[name] = {f"s_{name}": _HEAD + textwrap.dedent(program)}
    if companion is not None:
        WORLDS[name][f"c_{name}"] = _HEAD + textwrap.dedent(companion)


_world(
    "modattr",
    """
import c_modattr as cfg
def fn(x): return x * cfg.SCALE
""",
    "SCALE = K",
)
_world(
    "classattr",
    """
from c_classattr import Config
def fn(x): return x * Config.scale
""",
    "class Config: scale = K",
)
_world(
    "instclassattr",
    """
from c_instclassattr import cfg
def fn(x): return x * cfg.scale
""",
    "class Config: scale = K\ncfg = Config()",
)
_world(
    "instattr",
    """
from c_instattr import cfg
def fn(x): return x * cfg.scale
""",
    "class Config:\n    def __init__(s): s.scale = K\ncfg = Config()",
)
_world(
    "argobj",
    """
from c_argobj import Config
def fn(x, c): return x * c.scale
def args(): return (torch.ones(4), Config())
""",
    "class Config:\n    scale = K",
)
_world(
    "modclassattr",
    """
class M(torch.nn.Module):
    scale = K
    def forward(self, x): return x * self.scale
fn = M()
""",
)
_world(
    "modbaseclassattr",
    """
from c_modbaseclassattr import Base
class M(Base):
    def forward(self, x): return x * self.scale
fn = M()
""",
    "class Base(torch.nn.Module):\n    scale = K",
)
_world(
    "fnattr",
    """
def helper(x): return x
helper.scale = K
def fn(x): return x * helper.scale
""",
)
_world(
    "defaultarg",
    """
def fn(x, k=K): return x * k
""",
)
_world(
    "helperdefault",
    """
def helper(x, k=K): return x * k
def fn(x): return helper(x)
""",
)
_world(
    "helperkwdefault",
    """
def helper(x, *, k=K): return x * k
def fn(x): return helper(x)
""",
)
_world(
    "closure",
    """
def make(k):
    def fn(x): return x * k
    return fn
fn = make(K)
""",
)
_world(
    "helperclosure",
    """
def make(k):
    def helper(x): return x * k
    return helper
helper = make(K)
def fn(x): return helper(x)
""",
)
_world(
    "partial",
    """
import functools
def helper(x, k): return x * k
p = functools.partial(helper, k=K)
def fn(x): return p(x)
""",
)
_world(
    "partialother",
    """
import functools
def h1(x, k): return x * k
def h2(x, k): return x * k * 1.5
p = functools.partial(h1 if V == 1 else h2, k=2.0)
def fn(x): return p(x)
""",
)
_world(
    "enumval",
    """
import enum
class E(enum.Enum):
    A = K
def fn(x): return x * E.A.value
""",
)
_world(
    "enumarg",
    """
import enum
class E(enum.Enum):
    A = K
def fn(x, e): return x * e.value
def args(): return (torch.ones(4), E.A)
""",
)
_world(
    "intenum",
    """
import enum
class E(enum.IntEnum):
    A = int(K)
def fn(x): return x * int(E.A)
""",
)
_world(
    "dictglobal",
    """
D = {"scale": K}
def fn(x): return x * D["scale"]
""",
)
_world(
    "listglobal",
    """
D = [1.0, K]
def fn(x): return x * D[1]
""",
)
_world(
    "tupleglobal",
    """
D = (1.0, K)
def fn(x): return x * D[1]
""",
)
_world(
    "dataclassglobal",
    """
import dataclasses
@dataclasses.dataclass
class C:
    scale: float = K
c = C()
def fn(x): return x * c.scale
""",
)
_world(
    "frozendataclass",
    """
import dataclasses
@dataclasses.dataclass(frozen=True)
class C:
    scale: float = K
c = C()
def fn(x, c): return x * c.scale
def args(): return (torch.ones(4), c)
""",
)
_world(
    "dataclassnewfn",
    """
import dataclasses
@dataclasses.dataclass
class C:
    scale: float = K
def fn(x): return x * C().scale
""",
)
_world(
    "namedtuple",
    """
import collections
NT = collections.namedtuple("NT", "a b")
nt = NT(1.0, K)
def fn(x): return x * nt.b
""",
)
_world(
    "ntdefault",
    """
import collections
NT = collections.namedtuple("NT", "a b", defaults=(K,))
def fn(x): return x * NT(1.0).b
""",
)
_world(
    "property",
    """
from c_property import Config
c = Config()
def fn(x): return x * c.scale
""",
    "class Config:\n    @property\n    def scale(self): return K",
)
_world(
    "getattr",
    """
from c_getattr import Config
c = Config()
def fn(x): return x * c.scale
""",
    "class Config:\n    def __getattr__(self, n): return K",
)
_world(
    "helpermodflag",
    """
from c_helpermodflag import helper
def fn(x): return helper(x)
""",
    """
FLAG = V == 1
def helper(x): return x * 2.0 if FLAG else x * 3.0
""",
)
_world(
    "helpernested",
    """
from c_helpernested import helper
def fn(x): return helper(x)
""",
    """
import c_modattr as cfg
def inner(x): return x * cfg.SCALE
def helper(x): return inner(x)
""",
)
_world(
    "classmethodv",
    """
class C:
    k = K
    @classmethod
    def f(cls, x): return x * cls.k
def fn(x): return C.f(x)
""",
)
_world(
    "baseswap",
    """
class A:
    def f(self, x): return x * 2.0
class B:
    def f(self, x): return x * 3.0
class C(A if V == 1 else B): pass
c = C()
def fn(x): return c.f(x)
""",
)
_world(
    "methodpatch",
    """
class C:
    def f(self, x): return x * 2.0
if V == 2:
    C.f = lambda self, x: x * 3.0
c = C()
def fn(x): return c.f(x)
""",
)
_world(
    "instmethodpatch",
    """
class C:
    def f(self, x): return x * 2.0
c = C()
if V == 2:
    c.f = lambda x: x * 3.0
def fn(x): return c.f(x)
""",
)
_world(
    "modulemethodpatch",
    """
class M(torch.nn.Module):
    def helper(self, x): return x * 2.0
    def forward(self, x): return self.helper(x)
fn = M()
if V == 2:
    M.helper = lambda self, x: x * 3.0
""",
)
_world(
    "rebound",
    """
def h2(x): return x * 2.0
def h3(x): return x * 3.0
helper = h2 if V == 1 else h3
def fn(x): return helper(x)
""",
)
_world(
    "lambdas",
    """
helper = (lambda x: x * 2.0) if V == 1 else (lambda x: x * 3.0)
def fn(x): return helper(x)
""",
)
_world(
    "dictfns",
    """
D = {"f": (lambda x: x * 2.0) if V == 1 else (lambda x: x * 3.0)}
def fn(x): return D["f"](x)
""",
)
_world(
    "listfns",
    """
D = [(lambda x: x * 2.0) if V == 1 else (lambda x: x * 3.0)]
def fn(x):
    for f in D: x = f(x)
    return x
""",
)
_world(
    "modact",
    """
class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.act = (lambda x: x * 2.0) if V == 1 else (lambda x: x * 3.0)
    def forward(self, x): return self.act(x)
fn = M()
""",
)
_world(
    "allowingraph",
    """
def inner(x): return x * K
@torch._dynamo.allow_in_graph
def leaf(x): return inner(x)
def fn(x): return leaf(x)
""",
)
_world(
    "nonstrict",
    """
def inner(x): return x * K
@torch._dynamo.nonstrict_trace
def leaf(x): return inner(x)
def fn(x): return leaf(x)
""",
)
_world(
    "autogradfn",
    """
def inner(x): return x * K
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return inner(x)
    @staticmethod
    def backward(ctx, g): return g * 1.0
def fn(x): return F.apply(x)
""",
)
_world(
    "autogradfnbw",
    """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2.0
    @staticmethod
    def backward(ctx, g): return g * K
def fn(x): return F.apply(x)
def args(): return (torch.ones(4, requires_grad=True),)
GRAD = True
""",
)
_world(
    "assumeconst",
    """
@torch._dynamo.assume_constant_result
def getk(): return K
def fn(x): return x * getk()
""",
)
_world(
    "disabledhelper",
    """
@torch.compiler.disable
def helper(x): return x * K
def fn(x): return helper(x) + 0.0
""",
)
_world(
    "customop",
    """
@torch.library.custom_op("brk::op", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor: return x * K
@op.register_fake
def _(x): return torch.empty_like(x)
def fn(x): return op(x) + 0.0
""",
)
_world(
    "customopfake",
    """
@torch.library.custom_op("brk::opf", mutates_args=())
def opf(x: torch.Tensor) -> torch.Tensor: return x.repeat(V)
@opf.register_fake
def _(x): return x.new_empty(x.shape[0] * V)
def fn(x):
    y = opf(x)
    return y * y.shape[0]
""",
)
_world(
    "strmethod",
    """
NAME = "two" if V == 1 else "three"
def fn(x): return x * {"two": 2.0, "three": 3.0}[NAME]
""",
)
_world(
    "isinst",
    """
class A: pass
class B: pass
OBJ = A() if V == 1 else B()
def fn(x): return x * 2.0 if isinstance(OBJ, A) else x * 3.0
""",
)
_world(
    "hasattrs",
    """
class A: pass
OBJ = A()
if V == 1: OBJ.flag = 1
def fn(x): return x * 2.0 if hasattr(OBJ, "flag") else x * 3.0
""",
)
_world(
    "keyin",
    """
D = {"a": 1} if V == 1 else {"b": 1}
def fn(x): return x * 2.0 if "a" in D else x * 3.0
""",
)
_world(
    "setin",
    """
D = {"a"} if V == 1 else {"b"}
def fn(x): return x * 2.0 if "a" in D else x * 3.0
""",
)
_world(
    "envvar",
    """
import os
def fn(x): return x * 2.0 if os.environ.get("W") == "1" else x * 3.0
""",
)
_world(
    "nan",
    """
N = float("nan") if V == 1 else 3.0
def fn(x): return x * N
""",
)
_world(
    "negzero",
    """
Z = 0.0 if V == 1 else -0.0
def fn(x): return torch.copysign(torch.ones(4), x * 0 + Z) * Z
""",
)
_world(
    "boolint",
    """
B = True if V == 1 else 1
def fn(x): return x * 2.0 if B is True else x * 3.0
""",
)
_world(
    "intfloat",
    """
B = 1 if V == 1 else 1.0
def fn(x): return x.int() * B
""",
)
_world(
    "bigint",
    """
B = 2**70 if V == 1 else 2**70 + 1
def fn(x): return x * (2.0 if B % 2 == 0 else 3.0)
""",
)
_world(
    "dtypeg",
    """
DT = torch.float32 if V == 1 else torch.float64
def fn(x): return x.to(DT) * 2.0
""",
)
_world(
    "tensorglobal",
    """
T = torch.tensor([K])
def fn(x): return x * T
""",
)
_world(
    "tensorglobalitem",
    """
T = torch.tensor([K])
def fn(x): return x * T.item()
""",
)
_world(
    "itemfloatfn",
    """
class O:
    def __float__(self): return K
o = O()
def fn(x): return x * float(o)
""",
)
_world(
    "metacls",
    """
class Meta(type):
    @property
    def scale(cls): return K
class C(metaclass=Meta): pass
def fn(x): return x * C.scale
""",
)
_world(
    "slots",
    """
class C:
    __slots__ = ("scale",)
    def __init__(self): self.scale = K
c = C()
def fn(x): return x * c.scale
""",
)
_world(
    "callobj",
    """
class C:
    k = K
    def __call__(self, x): return x * self.k
c = C()
def fn(x): return c(x)
""",
)
_world(
    "reduceobj",
    """
class C:
    def __init__(self): self.k = K
    def __reduce__(self): return C, ()
c = C()
def fn(x): return x * c.k
""",
)
_world(
    "staticattr_nested",
    """
class A:
    class B:
        k = K
def fn(x): return x * A.B.k
""",
)
_world(
    "submodclassattr",
    """
class L(torch.nn.Module):
    k = K
    def forward(self, x): return x * self.k
class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = L()
    def forward(self, x): return self.l(x)
fn = M()
""",
)
_world(
    "wrapsdeco",
    """
import functools
def deco(f):
    k = K
    @functools.wraps(f)
    def w(*a): return f(*a) * k
    return w
@deco
def fn(x): return x * 1.0
""",
)
_world(
    "graphbreakglobal",
    """
def fn(x):
    x = x * 1.0
    torch._dynamo.graph_break()
    return x * K
""",
)
_world(
    "graphbreakclassattr",
    """
from c_classattr import Config
def fn(x):
    x = x * 1.0
    torch._dynamo.graph_break()
    return x * Config.scale
""",
)
_world(
    "breakhelper",
    """
from c_breakhelper import helper
def fn(x):
    x = x * 1.0
    return helper(x) * 1.0
""",
    """
def helper(x):
    print(end="")
    return x * K
""",
)
_world(
    "torchpatch",
    """
def myrelu(x): return x * 3.0
if V == 2: torch.nn.functional.relu6 = myrelu
def fn(x): return torch.nn.functional.relu6(x * 2.0)
""",
)
_world(
    "torchmodpatch",
    """
import torch.nn as nn
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Softsign()
    def forward(self, x): return self.l(x)
if V == 2: nn.Softsign.forward = lambda self, x: x * 3.0
fn = M()
""",
)
_world(
    "userdictsub",
    """
class D(dict):
    k = K
d = D(a=1)
def fn(x): return x * d.k
""",
)
_world(
    "weird_len",
    """
L = [1] * int(K)
def fn(x): return x * float(len(L))
""",
)
_world(
    "forloop_range",
    """
N = int(K)
def fn(x):
    y = x * 0
    for i in range(N): y = y + x
    return y
""",
)
_world(
    "version",
    """
import types
mod = types.SimpleNamespace(v=K)
def fn(x): return x * mod.v
""",
)
_world(
    "descr",
    """
class Desc:
    def __get__(self, o, t=None): return K
class C:
    d = Desc()
c = C()
def fn(x): return x * c.d
""",
)
_world(
    "clsvarmutable",
    """
class C:
    opts = {"k": K}
c = C()
def fn(x): return x * c.opts["k"]
""",
)
_world(
    "hookfwd",
    """
class M(torch.nn.Module):
    def forward(self, x): return x * 2.0
fn = M()
if V == 2: fn.register_forward_hook(lambda m, a, o: o * 1.5)
""",
)
_world(
    "globalhook",
    """
class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Identity()
    def forward(self, x): return self.l(x) * 2.0
fn = M()
if V == 2: fn.l.register_forward_pre_hook(lambda m, a: (a[0] * 1.5,))
""",
)
