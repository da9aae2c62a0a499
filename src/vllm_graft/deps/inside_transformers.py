# A program of its own: its text goes to the base image's own interpreter on stdin, which has nothing of this program. It
# asks the transformers that is there what a plan has read of it; neither vLLM nor the donor's code is imported, and no
# code that a model brings. It keeps to what Python 3.9 understands.
"""What the transformers beside an interpreter has, by importing it."""

import importlib
import inspect
import json
import os
import signal
import sys

MARK = "vllm-graft-answer: "
"""Begins the one line that is the answer: whatever else the image's Python prints when it starts is not."""

PACKAGE = "transformers"
LIMIT = 280
"""Seconds after which it ends itself, should nobody be left to end it."""
YES, NO, FAILS, UNASKED = "yes", "no", "fails", "not asked"


class Absent(Exception):  # noqa: N818 (an answer, not an error)
    """What was asked for is not there; its message is what is said of it."""


def look_up(module, name):
    """Import a name as ``from module import name`` does."""
    try:
        found = importlib.import_module(module)
        if not name:
            return found
        try:
            return getattr(found, name)
        except AttributeError:
            return importlib.import_module(module + "." + name)
    except ModuleNotFoundError as error:
        # Another distribution that is not there is no answer about this one.
        if (error.name or "").partition(".")[0] != PACKAGE:
            raise
        raise Absent("it has no " + (module + "." + name if name else module)) from error


def name(asked):
    """Tell whether a name is imported."""
    look_up(asked["module"], asked["name"])
    return YES, ""


def call(asked):
    """Give the parameters of a plain function; what a class or a decorator takes is not judged."""
    found = look_up(asked["module"], asked["name"])
    if not inspect.isfunction(found) or hasattr(found, "__wrapped__"):
        return UNASKED, ""
    shown = []
    kinds = inspect.Parameter
    parameters = list(inspect.signature(found).parameters.values())
    for number, each in enumerate(parameters):
        is_first = not number or parameters[number - 1].kind != each.kind
        before = [other.kind for other in parameters[:number]]
        if each.kind == kinds.KEYWORD_ONLY and is_first and kinds.VAR_POSITIONAL not in before:
            shown.append("*")
        star = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}.get(each.kind, "")
        shown.append(star + each.name + ("" if each.default is each.empty else "=None"))
        after = [other.kind for other in parameters[number + 1 :]]
        if each.kind == kinds.POSITIONAL_ONLY and kinds.POSITIONAL_ONLY not in after:
            shown.append("/")
    return YES, ", ".join(shown)


def config_member(asked):
    """Tell whether the parent of all config classes has a member, of the class or of what it makes."""
    parent = look_up("transformers.configuration_utils", "PretrainedConfig")
    if hasattr(parent, asked["name"]) or hasattr(parent(), asked["name"]):
        return YES, ""
    return NO, "PretrainedConfig has no " + asked["name"]


def model_type(asked):
    """Tell whether ``AutoConfig`` has a class for a model type, and that the class is imported."""
    known = look_up("transformers.models.auto.configuration_auto", "CONFIG_MAPPING")
    if asked["name"] not in known:
        return NO, "AutoConfig does not know " + asked["name"]
    return YES, known[asked["name"]].__name__


def config(asked):
    """Let the class of its model type read a config.json; no other code of the model is there to be run."""
    known = look_up("transformers.models.auto.configuration_auto", "CONFIG_MAPPING")
    if asked["name"] not in known:
        return NO, "AutoConfig does not know " + asked["name"]
    made = known[asked["name"]].from_dict(asked["config"])
    return YES, type(made).__name__


def class_(asked):
    """Tell whether a tokenizer or processor class that a checkpoint names is found, slow or fast."""
    stem = asked["name"].removesuffix("Fast")
    for each in dict.fromkeys((asked["name"], stem, stem + "Fast")):
        try:
            found = look_up(PACKAGE, each)
        except Absent:
            continue
        # Source: transformers 4.56 to 5.24, utils/import_utils.py, DummyObject: stands for a class whose needs are absent.
        if type(found).__name__ != "DummyObject":
            return YES, ""
        lacking = ", ".join(getattr(found, "_backends", ()))
        return FAILS, each + " is a placeholder, since this is not there: " + lacking
    return NO, "it has no class " + asked["name"]


def layer_type(asked):
    """Tell whether a config class that checks its layer types takes this one."""
    told = vars(importlib.import_module("transformers.configuration_utils"))
    known = set()
    for key, value in told.items():
        if (
            key.startswith("ALLOWED_") and key.endswith("LAYER_TYPES")
        ) or key == "_LEGACY_LAYER_TYPE_REMAP":
            known.update(value)
    if not known:
        return UNASKED, ""
    if asked["name"] in known:
        return YES, ""
    return NO, "it refuses " + asked["name"] + " in layer_types"


KINDS = {
    "name": name,
    "call": call,
    "config member": config_member,
    "model type": model_type,
    "config": config,
    "class": class_,
    "layer type": layer_type,
}


def said(error):
    """Say what went wrong first: lazy modules wrap it."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return (type(error).__name__ + ": " + (lines[0] if lines else ""))[:300]


def answer(asked):
    """Answer one question."""
    ask = KINDS.get(asked["kind"])
    if ask is None:
        return UNASKED, ""
    try:
        return ask(asked)
    except Absent as error:
        return NO, str(error)
    except (
        BaseException
    ) as error:  # whatever goes wrong is the answer, also that a module ends the process
        return FAILS, said(error)


def main(text):
    """Answer all questions, in their order, on one line."""
    signal.alarm(LIMIT)
    # What imports print goes to stderr, also what is written past sys.stdout.
    kept = os.dup(1)
    os.dup2(2, 1)
    told = {"version": "", "error": "", "answers": []}
    try:
        told["version"] = str(importlib.import_module(PACKAGE).__version__)
    except BaseException as error:
        told["error"] = said(error)
    else:
        told["answers"] = [answer(each) for each in json.loads(text)]
    sys.stdout.flush()
    os.write(kept, ("\n" + MARK + json.dumps(told) + "\n").encode("ascii"))
