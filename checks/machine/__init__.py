"""The machine itself: identity, memory, CPUs, room, clock."""
