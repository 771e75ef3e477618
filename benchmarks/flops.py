"""FLOPs of a compiled program: its matrix products, with loops run to their end.

XLA's own cost analysis counts the body of a loop once, whatever its trip count, so a
decoder of 30 scanned layers would look like one of a single layer.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable

import jax

_HEADER = re.compile(r"^(ENTRY )?%(?P<name>[\w.\-]+) \(")
_LINE = re.compile(
  r"^\s+(ROOT )?%(?P<name>[\w.\-]+) = (?P<type>.*?) (?P<op>[\w\-]+)\((?P<args>.*?)\)(?P<rest>.*)$"
)
_CALLS = re.compile(r"(?:calls|to_apply|body)=%([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'known_trip_count":\{"n":"(\d+)"')
_CONTRACTED = re.compile(r"lhs_contracting_dims=\{([\d,]*)\}")


def _shape(text: str) -> list[int]:
  dims = re.match(r"\w+\[([\d,]*)\]", text)
  return [int(n) for n in dims.group(1).split(",") if n] if dims else []


def matmul_flops(compiled: jax.stages.Compiled) -> float:
  """FLOPs of `jax.jit(f).lower(...).compile()`.

  Every product of [m, k] and [k, n] counts 2 m k n. Of a conditional's branches the
  dearest counts, so that a branch which only the last layer takes is not seen.
  """
  bodies: dict[str, list[re.Match]] = {}
  entry = current = ""
  for line in (compiled.as_text() or "").splitlines():
    if header := _HEADER.match(line):
      current = header["name"]
      bodies[current] = []
      entry = current if line.startswith("ENTRY") else entry
    elif match := _LINE.match(line):
      bodies[current].append(match)

  @functools.cache
  def cost(name: str) -> float:
    types = {line["name"]: line["type"] for line in bodies[name]}
    return sum(_cost(line, types, cost) for line in bodies[name])

  return cost(entry)


def _cost(line: re.Match, types: dict[str, str], cost: Callable[[str], float]) -> float:
  """FLOPs of one instruction, with those of the computations that it calls."""
  rest = line["rest"]
  if line["op"] == "dot":
    left = _shape(types[line["args"].split(",")[0].strip().lstrip("%")])
    inner = [left[int(i)] for i in _CONTRACTED.findall(rest)[0].split(",") if i]
    return 2.0 * math.prod(_shape(line["type"])) * math.prod(inner)
  if line["op"] == "conditional":
    branches = _BRANCHES.findall(rest)[0].split(",")
    return max(cost(name.strip().lstrip("%")) for name in branches)
  called = _CALLS.search(rest)
  if called is None:
    return 0.0
  trips = _TRIPS.search(rest) if line["op"] == "while" else None
  return (int(trips[1]) if trips else 1) * cost(called[1])
