import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_graft.link.unified import apply_diff, render_diff

TEXT = st.lists(
    st.sampled_from(
        ["a", "b", "", "x = 1", "\x0c", "é\u2028z", "\r", "-- a", "@@ -1 +1 @@", "\\ No"]
    ),
    max_size=12,
).map("\n".join)


@given(before=TEXT, after=TEXT)
def test_applying_a_diff_gives_the_text_that_it_was_made_from(before: str, after: str) -> None:
    assert apply_diff(before, render_diff("a.py", before, after)) == after


@given(after=TEXT)
def test_a_new_file_comes_out_of_its_diff(after: str) -> None:
    assert apply_diff("", render_diff("a.py", None, after)) == after


def test_no_difference_is_an_empty_diff() -> None:
    assert render_diff("a.py", "same\n", "same\n") == ""


@pytest.mark.parametrize(("before", "after"), [("a\nb\n", "a\nc"), ("a", "b\n"), ("a\n", "")])
def test_git_applies_what_we_render(tmp_path: Path, before: str, after: str) -> None:
    (tmp_path / "a.py").write_text(before)
    diff = render_diff("a.py", before, after) + render_diff("new/empty.py", None, "")
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=diff.encode(), check=True)
    assert (tmp_path / "a.py").read_text() == after
    assert (tmp_path / "new/empty.py").read_text() == ""


@pytest.mark.parametrize(
    ("before", "complaint"),
    [
        ("0\n1\n2\nother\n", "line 4"),
        ("1\n2\n3\n", "line 1"),
        ("", "line 1"),
    ],
)
def test_a_diff_is_never_applied_where_a_line_differs(before: str, complaint: str) -> None:
    diff = render_diff("a.py", "0\n1\n2\n3\n", "0\n1\n2\n4\n")
    with pytest.raises(ValueError, match=complaint):
        apply_diff(before, diff)


@pytest.mark.parametrize(
    "diff",
    [
        "@@ nonsense\n",
        "@@ -1 +1 @@\n",
        "@@ -1 +1 @@\n-0\n",
        "@@ -9 +9 @@\n-0\n+1\n",
        "@@ -1 +1 @@\n*0\n",
    ],
)
def test_a_malformed_diff_is_refused(diff: str) -> None:
    with pytest.raises(ValueError, match="hunk"):
        apply_diff("0\n", diff)
