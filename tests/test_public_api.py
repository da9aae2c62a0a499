# Everything that the command line can do is one function call away, and asking for nothing imports nothing.
import doctest
import subprocess
import sys

import pytest

import vllm_graft


@pytest.mark.parametrize("name", vllm_graft.__all__)
def test_every_public_name_is_there_and_described(name: str) -> None:
    found = getattr(vllm_graft, name)
    assert found.__name__ == name
    assert found.__doc__


def test_the_lists_of_public_names_agree() -> None:
    homes = [name for names in vllm_graft._HOMES.values() for name in names]
    assert sorted(homes) == sorted(vllm_graft.__all__) == sorted(set(homes))


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'graft'"):
        _ = vllm_graft.graft


def test_the_example_in_the_docstring_runs() -> None:
    assert doctest.testmod(vllm_graft).failed == 0


def test_importing_the_package_imports_nothing_of_it() -> None:
    code = "import sys, vllm_graft; print([n for n in sys.modules if n.startswith('vllm_graft.')])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
