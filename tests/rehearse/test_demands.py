"""What a failed check asks for is read from its source."""

import ast
from typing import Any

import pytest

from vllm_graft.rehearse.inside_asserts import USUAL, wanted
from vllm_graft.rehearse.inside_supply import Lack, places, put, usual, wrong_kind


def demanded(check: str, **names: str) -> list[tuple[str, str, Any]]:
    local = {name: ast.parse(text, mode="eval").body for name, text in names.items()}
    return list(wanted(ast.parse(check, mode="eval").body, local))


@pytest.mark.parametrize(
    ("check", "asked"),
    [
        ("config.tie", [("config", "tie", True)]),
        ("not config.tie", [("config", "tie", False)]),
        (
            "config.gate == 'sigmoid' and config.norm",
            [("config", "gate", "sigmoid"), ("config", "norm", True)],
        ),
        ("config.n_shared > 0", [("config", "n_shared", 1)]),
        ("self.config.topk is not None", [("self.config", "topk", USUAL)]),
        ("not (not getattr(config, 'no_lora', False))", [("config", "no_lora", True)]),
        ("not (config.a or config.b)", [("config", "a", False), ("config", "b", False)]),
        ("config.a or config.b", []),
        ("len(config.a) == 3", []),
    ],
)
def test_a_check_names_values(check: str, asked: list[tuple[str, str, Any]]) -> None:
    assert demanded(check) == asked


def test_a_local_name_stands_for_what_it_was_set_to() -> None:
    assert demanded("topk is not None", topk="config.index_topk") == [
        ("config", "index_topk", USUAL)
    ]
    assert demanded("sparse", sparse="hasattr(config, 'index_topk')") == [
        ("config", "index_topk", USUAL)
    ]


def test_a_usual_value_follows_from_what_is_known() -> None:
    section = {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 3}
    assert usual("head_dim", section) == 64
    assert usual("layer_types", section) == ["full_attention"] * 3
    assert usual("layer_norm_eps", section) == 1e-06
    assert usual("num_nextn_predict_layers", section) == 1


def test_a_value_is_put_where_it_was_read_and_elsewhere_next() -> None:
    configuration: dict[str, Any] = {"text_config": {}, "vision_config": {}}
    found = list(places(configuration, Lack(("text_config",), "x")))
    assert [one.dotted for one in found] == ["text_config.x", "x", "vision_config.x"]
    put(configuration, found[0], 1)
    assert configuration["text_config"] == {"x": 1}


def test_a_supplied_number_that_is_taken_apart_becomes_a_list(tmp_path: Any) -> None:
    file = tmp_path / "model.py"
    file.write_text("def make(config):\n    return len(config['pattern'])\n")
    space: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), space)  # noqa: S102
    with pytest.raises(TypeError) as error:
        space["make"]({"pattern": 2})
    told = wrong_kind(error.value, {"num_hidden_layers": 3}, {"pattern": 2})
    assert told == ("pattern", [2, 2, 2])
