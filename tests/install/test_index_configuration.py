from vllm_graft.install.index_configuration import variables_for_pip

UV_FILE = """
index-url = "https://first/simple"
extra-index-url = ["https://second/simple"]
"""
NAMED = """
[[index]]
name = "in-house"
url = "https://house/simple"
default = true
[[index]]
name = "other"
url = "https://other/simple"
"""


def test_what_pip_was_told_stands() -> None:
    told = {"PIP_INDEX_URL": "https://pip/simple", "UV_INDEX_URL": "https://uv/simple"}
    assert variables_for_pip(told, pip_files=(), uv_files=(UV_FILE,)) == told
    configured = ("[global]\nindex-url = https://pip/simple\n",)
    assert variables_for_pip({}, pip_files=configured, uv_files=(UV_FILE,)) == {}


def test_a_constraint_of_pip_says_nothing_of_an_index() -> None:
    quiet = ("[global]\ntimeout = 60\nfind-links = /srv\n",)
    found = variables_for_pip({}, pip_files=quiet, uv_files=(UV_FILE,))
    assert found["PIP_INDEX_URL"] == "https://first/simple"
    assert found["PIP_EXTRA_INDEX_URL"] == "https://second/simple"


def test_variables_of_uv_count_before_its_files() -> None:
    told = {
        "UV_DEFAULT_INDEX": "https://a/simple",
        "UV_INDEX": "house=https://b/simple https://c/simple",
        "UV_FIND_LINKS": "/srv/wheels",
    }
    found = variables_for_pip(told, pip_files=(), uv_files=(UV_FILE,))
    assert found["PIP_INDEX_URL"] == "https://a/simple"
    assert found["PIP_EXTRA_INDEX_URL"] == "https://b/simple https://c/simple"
    assert found["PIP_FIND_LINKS"] == "/srv/wheels"


def test_credentials_of_a_named_index_go_along() -> None:
    told = {"UV_INDEX_IN_HOUSE_USERNAME": "me", "UV_INDEX_IN_HOUSE_PASSWORD": "p@ss"}
    found = variables_for_pip(told, pip_files=(), uv_files=(NAMED,))
    assert found["PIP_INDEX_URL"] == "https://me:p%40ss@house/simple"
    assert found["PIP_EXTRA_INDEX_URL"] == "https://other/simple"


def test_a_broken_file_of_uv_is_passed_over() -> None:
    assert variables_for_pip({}, pip_files=(), uv_files=("= torn", UV_FILE))["PIP_INDEX_URL"]
    assert variables_for_pip({}, pip_files=(), uv_files=("= torn",)) == {}
