"""The reader of PyTorch files against PyTorch, and against files that want to run code."""

import argparse
import collections
import os
import pickle
import zipfile

import numpy as np
import pytest
import torch

from asc_jax.models import torch_file
from asc_jax.types import UserError


def test_a_lightning_checkpoint_reads_as_torch_reads_it(tmp_path):
  torch.manual_seed(0)
  base = torch.randn(6, 5)
  state = collections.OrderedDict(
    whole=base,
    view=base[1:4, 2:],  # shares the storage, with an offset
    transposed=base.t(),
    scalar=torch.tensor(2.5),
    empty=torch.zeros(0, 3),
    half=torch.randn(3).half(),
    bfloat=torch.randn(2, 2).bfloat16(),
    ids=torch.arange(4)[None],
    flag=torch.tensor([True, False]),
    parameter=torch.nn.Parameter(torch.randn(2)),
  )
  path = tmp_path / "model.ckpt"
  extras = {"epoch": 3, "hyper_parameters": argparse.Namespace(lr=0.1), "loops": {"size": (1, 2)}}
  torch.save({"state_dict": state, **extras}, path)
  got = torch_file.state_dict(path)
  assert list(got) == list(state)
  for name, tensor in state.items():
    wanted = tensor.detach()
    if name == "bfloat":
      assert got[name].dtype.name == "bfloat16"
      wanted = wanted.float()
    np.testing.assert_array_equal(got[name].astype(wanted.numpy().dtype), wanted.numpy())
    assert got[name].shape == tuple(tensor.shape)
  assert torch_file.load(path)["hyper_parameters"].lr == 0.1


def test_a_module_state_dict_keeps_its_metadata_out_of_the_way(tmp_path):
  module = torch.nn.Linear(3, 2)
  torch.save(module.state_dict(), tmp_path / "pytorch_model.bin")
  got = torch_file.state_dict(tmp_path / "pytorch_model.bin")
  np.testing.assert_array_equal(got["weight"], module.weight.detach().numpy())
  assert set(got) == {"weight", "bias"}


class Runs:
  def __reduce__(self):
    return os.system, ("touch ran",)


def test_a_file_that_names_a_function_is_refused_and_runs_nothing(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  torch.save({"state_dict": {"w": torch.ones(2)}, "callbacks": Runs()}, "bad.ckpt")
  with pytest.raises(UserError, match=r"bad\.ckpt names posix\.system, which is no tensor"):
    torch_file.load("bad.ckpt")
  assert not os.path.exists("ran")


def test_a_whole_module_is_refused_by_name(tmp_path):
  torch.save(torch.nn.Linear(2, 2), tmp_path / "module.pt")
  with pytest.raises(UserError, match=r"names torch\.nn\.modules\.linear\.Linear"):
    torch_file.load(tmp_path / "module.pt")


class Beyond:
  """Pickles a tensor whose strides leave its storage."""

  def __init__(self, size, stride, offset=0):
    self.view = offset, size, stride


class Pickler(pickle.Pickler):
  def persistent_id(self, obj):
    return ("storage", torch.FloatStorage, "0", "cpu", 4) if obj == "STORAGE" else None

  def reducer_override(self, obj):
    if isinstance(obj, Beyond):
      from torch._utils import _rebuild_tensor_v2

      return _rebuild_tensor_v2, ("STORAGE", *obj.view, False, collections.OrderedDict())
    return NotImplemented


@pytest.mark.parametrize(
  "bad", [Beyond((2, 3), (3, 1)), Beyond((2,), (-1,), 1), Beyond((1,), (1,), 4)]
)
def test_a_tensor_beyond_its_storage_is_refused(tmp_path, bad):
  path = tmp_path / "bad.ckpt"
  with zipfile.ZipFile(path, "w") as archive:
    with archive.open("archive/data.pkl", "w") as file:
      Pickler(file, protocol=2).dump({"w": bad})
    archive.writestr("archive/data/0", np.arange(4, dtype=np.float32).tobytes())
  with pytest.raises(UserError, match=r"bad\.ckpt is damaged"):
    torch_file.load(path)


def test_damaged_and_missing_files_are_one_line(tmp_path):
  with pytest.raises(UserError, match="does not exist"):
    torch_file.load(tmp_path / "none.ckpt")
  (tmp_path / "text.ckpt").write_text("no zip")
  with pytest.raises(UserError, match="no zip file"):
    torch_file.load(tmp_path / "text.ckpt")
  torch.save({"a": torch.ones(3)}, tmp_path / "cut.ckpt")
  with zipfile.ZipFile(tmp_path / "cut.ckpt") as old, zipfile.ZipFile(tmp_path / "new", "w") as new:
    for name in old.namelist():
      new.writestr(name, old.read(name)[: 8 if "/data/" in name else None])
  with pytest.raises(UserError, match="new is damaged"):
    torch_file.load(tmp_path / "new")
  raw = (tmp_path / "cut.ckpt").read_bytes()
  (tmp_path / "crc").write_bytes(raw.replace(np.ones(3, np.float32).tobytes(), b"0" * 12))
  (tmp_path / "directory").write_bytes(raw.replace(b"PK\x01\x02", b"PK\x01\x00"))
  for name in ("crc", "directory"):
    with pytest.raises(UserError, match=f"{name} is damaged .BadZipFile"):
      torch_file.state_dict(tmp_path / name)
  torch.save([1, 2], tmp_path / "list.ckpt")
  with pytest.raises(UserError, match="no state_dict of tensors"):
    torch_file.state_dict(tmp_path / "list.ckpt")
