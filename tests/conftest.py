"""What holds for every test."""

from hypothesis import settings

# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
