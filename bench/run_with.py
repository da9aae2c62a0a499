# A wheel has no transformers beside it. What a base is planned and run with is one that its pins allow.
"""Which transformers each base of the coverage bench is planned and run with."""

RUN_WITH = {
    "0.14.1": "4.57.6",
    "0.17.1": "4.57.6",
    "0.20.2": "5.9.0",
    "0.25.1": "5.16.1",
    "0.27.1": "5.16.1",
}
"""The transformers that a base is planned with, which is the one that it is run with (tests/vllm/insides.py)."""
RUN_NEWER = {
    ("0.20.2", "Gemma4UnifiedForConditionalGeneration"): "5.16.1",
    ("0.20.2", "Step3p7ForConditionalGeneration"): "5.16.1",
}
"""Models that transformers knows only since a later release, which the base's pins allow too. It is not the base's for
all, as the LLaVA family of 0.20.2 does not import from it."""
