"""The command line, as a person would call it."""

import re
import subprocess
import sys

TOOL = [sys.executable, "-m", "asc_jax.tools.corver_index"]


def run(*arguments):
  done = subprocess.run([*TOOL, *arguments], capture_output=True, text=True)
  return done.returncode, done.stdout, done.stderr


def test_build_and_count(tmp_path):
  corpus = tmp_path / "corpus.txt"
  corpus.write_text(
    "Ada Lovelace wrote of the Analytical Engine.\nthe analytical ENGINE, Ada Lovelace\n"
  )
  status, out, err = run("build", f"--input={corpus}", f"--out={tmp_path / 'index'}")
  assert (status, err) == (0, "")
  assert "2 documents, 9 distinct words, 12 tokens, 1 shards" in out
  phrases = ["Ada Lovelace", "Analytical Engine"]
  status, out, err = run("count", *phrases, f"--index={tmp_path / 'index'}")
  assert (status, err) == (0, "")
  assert re.fullmatch(r"Ada AND Lovelace AND Analytical AND Engine: 1 \(exact\), \d+\.\d ms\n", out)
  status, out, err = run("count", *phrases, f"--index={tmp_path / 'index'}", "--fold_case=true")
  assert ": 2 (exact)" in out


def test_mistakes_cost_one_line(tmp_path):
  docs, big, deep, out = (tmp_path / n for n in ("docs.txt", "big.jsonl", "deep.json", "out"))
  docs.write_text("Ada Lovelace wrote it.\n")
  big.write_text('{"text": %s}\n' % ("9" * 5000))
  deep.write_text("[" * 100_000)
  for arguments, message in [
    ([], "name a command first: build or count"),
    (["counts", "Ada"], "name a command first"),
    (["count", "Ada"], "--index=PATH is missing"),
    (["count", "of the", f"--index={tmp_path}"], "no content word"),
    (["build", "--inputs=x"], "did you mean --input?"),
    (["build", "--input=,", f"--out={out}"], "--input has an empty name"),
    (["build", f"--input={docs}", f"--out={docs}"], "docs.txt cannot be written (File exists)"),
    (["build", f"--input={big}", f"--out={out}"], "big.jsonl: row 1 is not readable"),
    (["build", f"--input={deep}", f"--out={out}"], "deep.json: row 1 is not readable"),
  ]:
    status, printed, err = run(*arguments)
    assert (status, printed) == (2, "")
    assert message in err and err.count("\n") == 1
    assert not out.exists()
