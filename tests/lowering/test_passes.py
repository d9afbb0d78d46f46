"""The list of passes: the documents agree with it, and programs show what each did."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veery
from veery import _dispatch, numpy as jnp
from veery_lowering.passes.pipeline import PASSES

ROOT = Path(__file__).parents[2]


def product_of_a_mask(mask: Any, w: Any) -> Any:
    return mask.astype(jnp.float32) @ w


def effects(target: str, **options: Any) -> dict[str, Any]:
    operands = np.ones((5, 3), bool), np.ones((3, 2), np.float32)
    traced = veery.jit(product_of_a_mask, **options).trace(*operands)
    report = _dispatch.pass_report(lambda: traced.lower(lowering_platforms=[target])._lowered)
    assert [e.name for e in report] == [p.name for p in PASSES]
    return {e.name: e for e in report}


def test_the_document_lists_the_passes_in_order() -> None:
    table = (ROOT / "docs/architecture.md").read_text().partition("## Passes")[2].partition("###")[0]
    names = {p.name for p in PASSES}
    rows = [match[1] for line in table.splitlines() if (match := re.match(r"\|[^|]*\| `(\w+)`", line))]
    assert [name for name in rows if name in names] == [p.name for p in PASSES]


@pytest.mark.parametrize("target", ["cpu", "vulkan", "cuda"])
def test_what_passes_did(target: str) -> None:
    found = effects(target)
    assert found["settle_products"].changed and "stablehlo.convert" in found["settle_products"].removed
    assert found["compute_constants"].ran and not found["compute_constants"].changed
    assert not found["separate_paddings"].ran  # there are none
    assert found["keep_roundings"].ran == found["compute_widened"].ran == (target == "vulkan")
    assert not found["fuse_loops"].ran
    assert not found["compute_each"].ran and not found["reuse_donated"].ran
    assert all((ROOT / "lowering" / effect.file).exists() for effect in found.values())


def test_donated_arguments_are_reused() -> None:
    assert not effects("vulkan")["reuse_donated"].ran
    traced = veery.jit(lambda x: x + 1, donate_argnums=0).trace(np.ones(1 << 20, np.float32))
    report = {e.name: e for e in _dispatch.pass_report(lambda: traced.lower(lowering_platforms=["vulkan"])._lowered)}
    assert report["reuse_donated"].changed
    report = {e.name: e for e in _dispatch.pass_report(lambda: traced.lower()._lowered)}
    assert report["tell_donated"].changed and not report["reuse_donated"].ran  # `place_results` does that


def test_the_command_prints_them(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("def f(mask, w):\n    return mask.astype('float32') @ w\n")
    command = [sys.executable, "-m", "veery", "inspect", "model.py:f", "--args", "bool[5,3], f32[3,2]", "--passes"]
    text = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert [p.name for p in PASSES] == [re.split(r"  +", line)[1] for line in text.splitlines()[1:]]
    assert re.search(r"settle_products +\+.*veery_lowering/passes/stablehlo/products.py", text)
    shown = json.loads(subprocess.run([*command, "--json"], cwd=tmp_path, capture_output=True, check=True).stdout)
    assert [e["name"] for e in shown] == [p.name for p in PASSES]
