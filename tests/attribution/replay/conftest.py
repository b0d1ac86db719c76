"""No deadlines: the first call of a loop compiles it."""
