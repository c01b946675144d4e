"""Makes the golden guard plan of the current format version: ``make_guard_plan.py [file]``.

Golden files are kept for ever and never edited; this refuses to touch one that is there. The plan
is for frames where ``x is None and n == 3 and d == {"a": 2**70} and m is n`` and whose global ``f``
is ``math.sqrt``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hotstart.guards import plan as plans
from hotstart.guards.tape_writer import Example, NodeFlags, TapeWriter

FILE = Path(__file__).parent / "guards" / "v1" / "frame.plan"

AMBIENT = {"include": 0, "exclude": 0, "grad": True, "device": None, "hooks": False}
HEADER = plans.Header(AMBIENT, "", "__builtins_dict___1", {"held": 3}, {"EQUALS_MATCH": 2})
PLAIN = (
    *(("x", 0), ("n", 1), ("d", 2), ("m", 3)),
    *("L['x']", "L['n']", "L['d']", "L['m']"),
    *("G", "['a']", "['f']", "a", "f"),
    *(0, 1, 3, 2**70),
)
X, N, D, M, IN_X, IN_N, IN_D, IN_M, G, AT_A, AT_F, A, F, ZERO, ONE, THREE, LARGE = range(len(PLAIN))
SQRT, ADDRESS, DICT, SIZED, GLOBALS = range(len(PLAIN), len(PLAIN) + 5)
SPECIAL = (
    ("named", ("math", "sqrt", "name", 0), ()),
    ("address", None, (SQRT,)),
    ("named", ("builtins", "dict", "name", 0), ()),
    ("sized dict", 1, (DICT,)),
    ("globals", None, ()),
)
TEXTS = ("x is None", "n == 3", "len(d) == 1", "key", "value", "f is math.sqrt", "m is n")
STACK = (("file.py", 3, "fn", "return n"),)
COLD = plans.Cold(
    tuple(((text,), 0 if text == "n == 3" else -1) for text in TEXTS), (STACK,), ("",) * 9
)


def tape() -> bytes:
    writer = TapeWriter()
    writer.accessor("framelocals_manager", 0, X, Example.OBJECT, None, 0, IN_X)
    writer.leaf("add_none_match_guard", 1, "mu", (None, None))
    writer.accessor("framelocals_manager", 0, N, Example.NONE, None, 0, IN_N)
    writer.leaf("add_equals_match_guard", 2, "vmu", (THREE, None, None))
    flags = Example.VALUE | NodeFlags.DICT_MANAGER
    writer.accessor("framelocals_manager", 0, D, flags, SIZED, 0, IN_D)
    writer.leaf("add_dict_length_check_guard", 3, "vmu", (ONE, None, None))
    writer.accessor("get_key_manager", 3, ZERO, Example.NONE, None, 0, A)
    writer.leaf("add_equals_match_guard", 4, "vmu", (A, None, None))
    writer.accessor("get_value_manager", 3, ZERO, Example.NONE, None, 0, AT_A)
    writer.leaf("add_equals_match_guard", 5, "vmu", (LARGE, None, None))
    writer.accessor("globals_dict_manager", 0, GLOBALS, Example.DICT, None, 0, G)
    writer.accessor("dict_getitem_manager", 6, F, Example.OBJECT, None, 0, AT_F)
    writer.leaf("add_id_match_guard", 7, "vmu", (ADDRESS, None, None))
    writer.accessor("framelocals_manager", 0, M, Example.NONE, None, 0, IN_M)
    writer.function("install_object_aliasing_guard", "nnmu", (2, 8, None, None))
    writer.mark(8, NodeFlags.TAG_SAFE)
    return writer.to_bytes(range(len(PLAIN) + len(SPECIAL)))


def plan() -> bytes:
    return plans.to_bytes(HEADER, PLAIN, SPECIAL, 9, tape(), COLD)


def main(file: Path) -> None:
    if file.exists():
        sys.exit(f"{file} is there already; golden files are never made again")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(plan())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FILE)
