# ruff: noqa
"""Backends, passes and options that differ, and functions that look alike."""

import functools

import torch
from common import K, V, main, same, same_error, scenario, x4
from torch._inductor.compile_fx import compile_fx


def scaled(gm, k):
    for n in gm.graph.nodes:
        if n.target is torch.mul or (
            n.op == "call_function" and getattr(n.target, "__name__", "") == "mul"
        ):
            n.args = (n.args[0], k)
    gm.recompile()
    return gm


def my_backend(gm, inputs, k=K):
    return compile_fx(scaled(gm, k), inputs)


class BE:
    def __init__(s, k):
        s.k = k

    def __call__(s, gm, inputs):
        return compile_fx(scaled(gm, s.k), inputs)


@scenario
def backend_changed():
    def f(x):
        return x * 1.0

    # expected: what the backend gives = K
    same(torch.compile(f, backend=my_backend)(x4), x4 * K)


def fp(x):
    return x * 1.0


@scenario
def backend_partial():
    same(torch.compile(fp, backend=functools.partial(my_backend, k=K))(x4), x4 * K)


@scenario
def backend_partial_two():
    def f(x):
        return x * 5.0

    a = torch.compile(f, backend=functools.partial(my_backend, k=2.0))
    b = torch.compile(f, backend=functools.partial(my_backend, k=3.0))
    if V == 1:
        same(a(x4), x4 * 2.0)
        same(b(x4), x4 * 3.0)
    else:
        same(b(x4), x4 * 3.0)
        same(a(x4), x4 * 2.0)


def fi(x):
    return x * 1.0


@scenario
def backend_instance():
    same(torch.compile(fi, backend=BE(K))(x4), x4 * K)


from torch._inductor.custom_graph_pass import CustomGraphPass


class Pass(CustomGraphPass):
    def __init__(s, k):
        s.k = k

    def __call__(s, graph):
        for n in graph.nodes:
            if n.op == "call_function" and "mul" in str(n.target):
                n.args = (n.args[0], s.k)

    def uuid(s):
        return f"p{s.k}"


def fpass(x):
    return x * 1.5


@scenario
def custom_pass():
    with torch._inductor.config.patch(post_grad_custom_post_pass=Pass(K)):
        same(torch.compile(fpass)(x4), x4 * K)


def fpass2(x):
    return x * 1.25


@scenario
def custom_pass_opt():
    same(torch.compile(fpass2, options={"post_grad_custom_post_pass": Pass(K)})(x4), x4 * K)


def fm(x):
    return torch.sin(x * 2.0)


@scenario
def modes():
    for kw in (
        {},
        {"mode": "reduce-overhead"},
        {"dynamic": True},
        {"dynamic": False},
        {"fullgraph": True},
        {"options": {"epilogue_fusion": True}},
        {"backend": "eager"},
        {"backend": "aot_eager"},
        {},
    ):
        same(torch.compile(fm, **kw)(x4), fm(x4), str(kw))


def st(x):
    return x * 2.0


@scenario
def stance():
    c = torch.compile(st, dynamic=False)
    if V == 1:
        same(c(x4), x4 * 2)
    with torch.compiler.set_stance("force_eager"):
        same(c(torch.ones(2)), torch.ones(2) * 2)
    with torch.compiler.set_stance("eager_on_recompile"):
        same(c(x4), x4 * 2)
    with torch.compiler.set_stance("fail_on_recompile"):
        if V == 1:
            same(c(x4), x4 * 2)
        else:
            try:
                r = c(x4)
            except RuntimeError as e:
                print("   stance fail_on_recompile first:", str(e)[:60])
    same(c(x4), x4 * 2)


def _raise():
    raise RuntimeError


def st2(x):
    return x * 3.0


@scenario
def stance_fail_on_hit():
    c = torch.compile(st2, dynamic=False)
    same(c(x4), x4 * 3)
    with torch.compiler.set_stance("fail_on_recompile"):
        same(c(x4), x4 * 3)
        if V == 1:
            same_error(lambda: c(torch.ones(3)), _raise)
    same(c(torch.ones(3)), torch.ones(3) * 3)


class CC:
    k = 2.0

    @torch.compile
    def meth(self, x):
        return x * self.k

    @staticmethod
    @torch.compile
    def sm(x):
        return x * 2.0

    @classmethod
    @torch.compile
    def cm(cls, x):
        return x * cls.k

    @torch.compile
    def __call__(self, x):
        return x * 3.0


@scenario
def decorated():
    c = CC()
    same(c.meth(x4), x4 * 2)
    same(c.sm(x4), x4 * 2)
    same(CC.sm(x4), x4 * 2)
    same(c.cm(x4), x4 * 2)
    same(c(x4), x4 * 3)
    try:

        class D:
            @torch.compile
            @staticmethod
            def s(x):
                return x * 2.0

        same(D.s(x4), x4 * 2)
    except Exception as e:
        print("   ", type(e), str(e)[:100])


@scenario
def compile_builtin_partial():
    same(torch.compile(functools.partial(torch.mul, other=2.0))(x4), x4 * 2)
    same(torch.compile(torch.sin)(x4), x4.sin())
    same(torch.compile(torch.nn.functional.relu)(x4), x4)
    p = functools.partial(fmul, k=K)
    same(torch.compile(p)(x4), x4 * K)


def fmul(x, k):
    return x * k


def reclimit(x, k):
    return x * k


@scenario
def recompile_limit():
    with torch._dynamo.config.patch(recompile_limit=3):
        c = torch.compile(reclimit, dynamic=False)
        for i in range(6):
            same(c(x4, str(i) and i % 2 == 0), x4 * (i % 2 == 0))
            same(c(torch.ones(i + 2), True), torch.ones(i + 2))


class Callm:
    def __init__(s, k):
        s.k = k

    def __call__(s, x):
        return x * s.k


@scenario
def callable_obj():
    same(torch.compile(Callm(K))(x4), x4 * K)


@scenario
def lambdas_same_module():
    a = torch.compile(lambda x: x * 2.0)
    b = torch.compile(lambda x: x * 2.0)
    same(a(x4), x4 * 2)
    same(b(x4), x4 * 2)


@scenario
def exec_two_worlds():
    src = "def g(x): return x * KK\n"
    outs = []
    for k in (2.0, 3.0) if V == 1 else (3.0, 2.0):
        ns = {"KK": k, "__name__": "nsmod"}
        exec(src, ns)
        same(torch.compile(ns["g"])(x4), x4 * k, "exec")
        outs.append(ns)


@scenario
def factory():
    def mk(k):
        def f(x):
            return x * k

        return f

    for k in (2.0, 3.0) if V == 1 else (3.0, 2.0):
        same(torch.compile(mk(k))(x4), x4 * k)


@scenario
def factory_fn():
    def mk(h):
        def f(x):
            return h(x) * 1.0

        return f

    for h in (
        (lambda x: x * 2.0, lambda x: x * 3.0) if V == 1 else (lambda x: x * 3.0, lambda x: x * 2.0)
    ):
        same(torch.compile(mk(h))(x4), h(x4))


main()
