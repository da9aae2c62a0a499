"""What the reader takes in without an error: shapes of Python that a walk over names could go round in."""

import pytest

from linking import uses_of


@pytest.mark.parametrize(
    "text",
    [
        "def x():\n    yield\n\n\nx = x()\ny = x.close()\n",
        "x = wrapped(x)\ny = x.part\n",
        "a = b\nb = a\nc = a.part()\n",
        "a = b.c()\nb = a.d()\nc = (a or b).part()\n",
        "a: b\nb: a\nc = a.part\n",
        "class A(A):\n    pass\n\n\nA().part()\n",
        "A = B\nB = A\n\n\nclass C(A):\n    def run(self, x: A):\n        return x.part\n",
        (
            "class A:\n    def __init__(self):\n        self.a = self.a.b\n    def run(self):\n"
            "        return self.a.part()\n"
        ),
        "class A:\n    x = A.x\n    y = A.x.y\n\n\nA.y.part()\n",
        "from vllm.m import f as g\nfrom vllm.m import g as f\nf()\n",
        "import vllm.m as m\nm.m.m.part()\n",
        "",
    ],
)
def test_a_name_that_leads_round_in_a_circle_is_only_unknown(text: str) -> None:
    files = {"vllm/__init__.py": "", "vllm/m.py": text}
    assert uses_of(files, "vllm.m").registrations == ()
