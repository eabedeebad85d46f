"""Looks at the machine: files of /proc, /sys and /etc, clocks, file systems. Judges nothing."""
