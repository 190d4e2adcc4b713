"""The compiler: from a source text to a schedule, room by room, no target and no command line in it."""
