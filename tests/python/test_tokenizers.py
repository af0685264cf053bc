"""The tokenizers of the fixtures through the package: a wheel has less of ICU's data than the system."""
import json
import shutil
import subprocess

import pytest
from conftest import FIXTURES

from heed._training import command

CASES = [(file, case) for file in ("components", "spaces", "whole", "families")
         for case in json.loads((FIXTURES / "tokenizers" / f"{file}.json").read_text())["cases"]]


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{file}-{case['name']}") for file, case in CASES])
def test_ids_are_those_of_the_libraries(case, tmp_path):
    if "tokenizer" in case:
        (tmp_path / "tokenizer.json").write_text(json.dumps(case["tokenizer"]))
    else:
        for name, content in case["files"].items():
            (tmp_path / name).write_text(json.dumps(content))
        shutil.copy(FIXTURES / "tokenizers/families" / case["model"], tmp_path / case["file"])
    texts = [(text, ids) for text, ids, *_ in case["texts"] if text and "\0" not in text]   # which an argument cannot hold
    done = subprocess.run([command(), "tokenize", "--json", "--model", str(tmp_path), "--", *(text for text, _ in texts)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["ids"] for line in done.stdout.split("\n")[:-1]] == [ids for _, ids in texts]
