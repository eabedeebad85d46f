#!/bin/sh
# Makes a virtual environment that holds exactly what a lock file names.
#
#   sh tools/venv.sh VENV LOCK [ALSO_GOOD...]
#
# Does nothing when VENV already holds LOCK, or one of ALSO_GOOD (a lock that includes LOCK).
# Called by the Makefile, in the checkout. From the environment it takes:
#   PYTHON    the interpreter to use; otherwise the first of python3, python3.13 … python3.10 that serves
#   OFFLINE   1: ask no index, take wheels/ only
# In a bundle (`make bundle`) there are also wheels/, which is then the only source, and the file
# BUNDLE, which says what Python and architecture they fit.
set -eu

venv=$1
lock=$2
shift

# Names the lock that the environment holds. Copied in last, so an interrupted install has none.
done_note=$venv/installed.lock
# Tells an environment of ours, which may be deleted, from one that somebody else made here.
our_note=$venv/made-by-preflight

die() {
    printf 'preflight: %s\n' "$@" >&2
    exit 1
}

ready() {
    for wanted in "$@"; do
        if cmp -s "$wanted" "$done_note"; then
            # The system's Python may have been replaced since, or the packages deleted.
            "$venv/bin/python" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("pytest"))' \
                2>/dev/null && return 0
        fi
    done
    return 1
}

ready "$@" && exit 0
[ -f "$lock" ] || die "$lock is not here. A bundle holds what runs the suite; the developers' tests need a checkout."

# --- which Python -------------------------------------------------------------------------------

machine=$(uname -m)
[ "$machine" = arm64 ] && machine=aarch64
bundle_python='' bundle_arch=''
if [ -f BUNDLE ]; then
    bundle_python=$(sed -n 's/^python: *//p' BUNDLE)
    bundle_arch=$(sed -n 's/^arch: *//p' BUNDLE)
fi

version_of() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

serves() {
    case $(version_of "$1") in
    '' | 2.* | 3.? ) return 1 ;;
    "${bundle_python:-3.}"*) return 0 ;;
    *) return 1 ;;
    esac
}

candidates=${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10}
python=''
seen=''
for name in $candidates; do
    if serves "$name"; then
        python=$name
        break
    fi
    version=$(version_of "$name") && [ -n "$version" ] && seen="$seen; $name is $version"
done
if [ -z "$python" ] && [ -z "${PYTHON:-}" ] && command -v uv >/dev/null 2>&1; then
    # uv may keep interpreters of its own that are not on PATH. It must not fetch one unasked.
    python=$(uv python find --no-python-downloads --no-project "${bundle_python:->=3.10}" 2>/dev/null) || python=''
fi

if [ -n "$bundle_arch" ] && { [ -z "$python" ] || [ "$bundle_arch" != "$machine" ]; }; then
    have=$(version_of "${PYTHON:-python3}") || have=''
    die "this bundle is for Python $bundle_python on $bundle_arch; this machine is $machine with Python ${have:-missing}." \
        "On a connected machine: make bundle BUNDLE_PYTHON=${have:-3.x} BUNDLE_ARCH=$machine"
fi
if [ -z "$python" ]; then
    die "needs Python 3.10 or newer. Tried $candidates${seen:-; none of them runs}." \
        "Install one, or name it: PYTHON=/path/to/python3"
fi

# --- where to put it ----------------------------------------------------------------------------

if [ -e "$venv" ] && [ ! -e "$our_note" ]; then
    die "$venv was not made by this Makefile, so it stays as it is. Move it away, or choose another folder: VENV=.venv-preflight"
fi
mkdir -p "$venv.new" 2>/dev/null || die "cannot write $venv here. Choose a folder that you may write to: VENV=/tmp/preflight-venv"

# A second make in the same checkout waits for the first one, then finds its work done.
if command -v flock >/dev/null 2>&1; then
    exec 9>"$venv.lock"
    if ! flock -n 9; then
        echo "preflight: another make is filling $venv; waiting for it" >&2
        flock 9
    fi
    ready "$@" && exit 0
fi

# --- how to install -----------------------------------------------------------------------------

pip_wheel=''
for file in wheels/pip-*.whl; do
    [ -f "$file" ] && pip_wheel=$file
done

if [ -n "$pip_wheel" ]; then
    how=wheel # pip runs from its own wheel, so a Python that was packaged without pip will do
elif "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    how=venv
elif command -v uv >/dev/null 2>&1; then
    how=uv
else
    die "$python cannot make a virtual environment: its venv module is incomplete. On Debian and Ubuntu, install the package python$(version_of "$python")-venv; or install uv."
fi

if [ -d wheels ]; then
    source=wheels
elif [ "${OFFLINE:-0}" != 0 ]; then
    source=none
else
    source=index
fi

no_source() {
    version=$(version_of "$python")
    die "$1, and there is no wheels/ folder beside the Makefile." \
        "On a connected machine, in a checkout of the same version: make bundle BUNDLE_PYTHON=$version BUNDLE_ARCH=$machine" \
        "Copy the file that it names to this machine, unpack it, and run make preflight in the folder that comes out."
}
[ "$source" = none ] && no_source "OFFLINE is set"

echo "preflight: filling $venv with Python $(version_of "$python") from ${source} (first run, or $lock changed)" >&2

# By renames, so that an interruption at any point leaves either nothing or a folder with our note.
rm -rf "$venv.old"
[ ! -e "$venv" ] || mv "$venv" "$venv.old"
: >"$venv.new/${our_note##*/}"
mv "$venv.new" "$venv"
rm -rf "$venv.old"

# Settings of the user's own that would send the packages somewhere else than into the environment.
PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
export PIP_USER PIP_REQUIRE_VIRTUALENV PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_INPUT
unset PIP_TARGET PIP_PREFIX PIP_ROOT PYTHONHOME

case $how in
wheel) "$python" -m venv --without-pip "$venv" ;;
venv) "$python" -m venv "$venv" ;;
uv) uv venv --quiet --no-project --allow-existing --python "$python" "$venv" ;;
esac

pip() {
    if [ "$how" = wheel ]; then
        "$venv/bin/python" "$pip_wheel/pip" "$@"
    else
        "$venv/bin/python" -m pip "$@"
    fi
}

# pip tries six times and may wait minutes for each, so one small package is asked for first. Of its
# complaints, the one at a repeated attempt names the reason, so there is one repetition.
index_answers() {
    probe=$(mktemp -d)
    if [ "$how" = uv ]; then
        echo iniconfig | UV_HTTP_RETRIES=0 UV_HTTP_TIMEOUT=10 \
            uv pip compile --quiet --python "$venv/bin/python" --no-header - >"$probe/out" 2>&1 && answer=0 || answer=1
    else
        pip download --quiet --retries 1 --timeout 10 --no-deps --dest "$probe" iniconfig >"$probe/out" 2>&1 && answer=0 || answer=1
    fi
    [ "$answer" = 0 ] || grep -m 1 -E 'Retrying|Could not fetch|Failed to fetch' "$probe/out" >&2 || :
    rm -rf "$probe"
    return "$answer"
}

[ "$source" != index ] || index_answers || no_source "no package index answers from here"

# On a box, wheels only: nothing is compiled there, and no code of a package runs to install it.
# Among the developers' tools is one that comes as source alone.
set --
[ "$lock" != requirements.lock ] || set -- --only-binary :all:
[ "$source" != wheels ] || set -- "$@" --no-index --find-links wheels

install() {
    if [ "$how" = uv ]; then
        uv pip install --quiet --python "$venv/bin/python" --require-hashes "$@" -r "$lock"
    else
        pip install --quiet --require-hashes "$@" -r "$lock"
    fi
}

if ! install "$@"; then
    [ "$source" != wheels ] ||
        die "wheels/ does not hold what $lock names for Python $(version_of "$python") on $machine; the lines above say what is missing."
    die "installing what $lock names failed; the lines above say why."
fi

# The suite runs from the checkout, uninstalled; this is its command.
here=$(pwd)
cat >"$venv/bin/preflight" <<EOF
#!/bin/sh
PYTHONPATH='$here'\${PYTHONPATH:+:\$PYTHONPATH} exec '$here/$venv/bin/python' -m checks.cli "\$@"
EOF
case $venv in /*) sed -i.old "s|'$here/$venv/bin/python'|'$venv/bin/python'|" "$venv/bin/preflight" && rm -f "$venv/bin/preflight.old" ;; esac
chmod +x "$venv/bin/preflight"

cp "$lock" "$done_note.new"
mv "$done_note.new" "$done_note"
