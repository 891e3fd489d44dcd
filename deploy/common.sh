# What the entry points share; they read it in.
set -eu
umask 077 # keys and samples are for this user alone

WORKSPACE=${WORKSPACE:-/workspace}
EXCHANGE=${EXCHANGE:-/exchange}

if [ "${1:-}" = --help ]; then
    sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
    exit
fi

fail() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# need VARIABLE WHAT: refuse to go on without it.
need() {
    eval "value=\${$1:-}"
    [ -n "$value" ] || fail "$1 is not set: it must be $2."
}

# check_name VARIABLE NAME: names become parts of files and of certificates.
check_name() {
    case $2 in
        "" | *[!a-zA-Z0-9._-]* | -* | .*) fail "$1 is '$2', which no certificate can have: use letters, digits, '.', '-' and '_'." ;;
    esac
}

# check_folder VARIABLE FOLDER: say at once what would fail after minutes.
check_folder() {
    { [ -d "$2" ] && [ -w "$2" ]; } || fail "$1 is '$2', which is no folder that this user can write to: mount a volume there."
}

# wait_for FILE: say once what is missing.
wait_for() {
    [ -e "$1" ] || echo "${0##*/}: waiting for $1"
    while [ ! -e "$1" ]; do sleep 1; done
}

# publish FILE TARGET: whole or not at all, because somebody waits for it.
publish() {
    cp "$1" "$2.part"
    mv "$2.part" "$2"
}

# enter_workspace: the aggregator's export, unpacked once; every later start goes on in it.
enter_workspace() {
    if [ ! -d "$WORKSPACE/workspace" ]; then
        wait_for "$EXCHANGE/workspace.zip"
        rm -rf "$WORKSPACE/new"
        mkdir "$WORKSPACE/new"
        (cd "$WORKSPACE/new" && fx workspace import --archive "$EXCHANGE/workspace.zip")
        mv "$WORKSPACE/new/workspace" "$WORKSPACE/workspace"
        rm -r "$WORKSPACE/new"
    fi
    cd "$WORKSPACE/workspace"
}
