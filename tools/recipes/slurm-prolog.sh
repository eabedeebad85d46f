#!/bin/sh
# Prolog of Slurm: a node whose gate is closed gets no job; it is drained, with the gate's line as the
# reason. In slurm.conf: Prolog=/opt/preflight/tools/recipes/slurm-prolog.sh
#
# slurmd runs it as root on the node. `preflight gate` takes a tenth of a second and reads no GPU.
# From the environment it takes PREFLIGHT, the command, and GATE, the options of the question. Without,
# it asks for what the timer and the cron line beside this file keep fresh, which are quick runs.
#
# Everything but an open gate drains, a typing error in GATE and a missing command too: no --window and
# no --min-interval in here.
preflight=${PREFLIGHT:-/opt/preflight/.venv/bin/preflight}
node=${SLURMD_NODENAME:-$(hostname -s)}

# shellcheck disable=SC2086 # several words
line=$("$preflight" gate --host "$node" ${GATE:---max-age 7d --scope quick --ledger-dir /var/lib/preflight} 2>&1) || {
    # whether or not the controller takes it: with a prolog that fails, the job starts elsewhere
    scontrol update NodeName="$node" State=DRAIN Reason="preflight: $line"
    exit 1
}
