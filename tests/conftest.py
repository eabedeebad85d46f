"""What holds for every test."""

import signal

# A shell script starts what it puts into the background with SIGINT ignored, children inherit that,
# and then no test of Ctrl-C would mean anything.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
