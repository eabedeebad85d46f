#!/bin/sh
# Runs the suite for cron or a systemd timer: at low priority, and quiet unless something changed.
#
#   scheduled.sh HOST LEDGER_DIR [OPTIONS OF THE SUITE...]
#
# Prints the report where the verdict is another than that of the last ledger, where `preflight diff`
# sees a change from it, and where no ledger was written. A run that is under way already, a scheduled
# one or somebody's own, makes this one give up: silently, with exit code 0, without waiting.
# Otherwise the exit code is the suite's.
#
# From the environment it takes PREFLIGHT, the command; without: preflight.
set -eu

[ $# -ge 2 ] || {
    echo 'usage: scheduled.sh HOST LEDGER_DIR [OPTIONS OF THE SUITE...]' >&2
    exit 2
}
host=$1 ledgers=$2
shift 2
preflight=${PREFLIGHT:-preflight}
folder=$ledgers/$host
mkdir -p "$folder"

# Says of the newest ledger what the head says: of the head itself, not of its scopes, which are
# indented further.
head_says() {
    [ ! -f "$folder/head.json" ] || sed -n "s/^ \"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$folder/head.json"
}

# Where flock is missing, or the file system has no locks, the suite's own lock remains, which waits.
held=75
code=0
exec 9>"$folder/.scheduled.lock"
flock -n -E $held 9 2>/dev/null || code=$?
[ $code != $held ] || exit 0
code=0
if [ -f "$folder/.lock" ]; then
    flock -n -E $held "$folder/.lock" true 2>/dev/null || code=$?
    [ $code != $held ] || exit 0
fi

idle=''
! command -v ionice >/dev/null 2>&1 || idle='ionice -c3'

before=$(head_says file)
before_code=$(head_says exit_code)
report=$(mktemp)
trap 'rm -f "$report"' EXIT
trap 'exit 2' HUP INT TERM

code=0
# shellcheck disable=SC2086 # two words, or none
nice -n 19 $idle "$preflight" run --host "$host" --ledger-dir "$ledgers" "$@" >"$report" 2>&1 9>&- || code=$?

after=$(head_says file)
changed=yes
if [ -n "$before" ] && [ "$after" != "$before" ] && [ "$code" = "$before_code" ]; then
    diff=0
    "$preflight" diff "$folder/$before" "$folder/$after" >/dev/null 2>&1 9>&- || diff=$?
    # 10: the two runs did not judge the same checks, and nothing changed in what both judged
    case $diff in 0 | 10) changed=no ;; esac
fi
[ $changed = no ] || cat "$report"
exit $code
