"""No deadlines: the first call of a loop compiles it."""

from hypothesis import settings

settings.register_profile("replay", deadline=None)
settings.load_profile("replay")
