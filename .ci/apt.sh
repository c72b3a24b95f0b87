# shellcheck shell=bash
# Sourced by scripts that install packages of Debian, or unpack those that do not belong to this machine: of another
# processor or of another release. For these apt works with lists and a status of its own (`make_apt`).
# The caller sets `work`, a folder that it removes.
export DEBIAN_FRONTEND=noninteractive

fail() {
    echo "${0#"$PWD"/}: $*" >&2
    exit 1
}

quietly() { # what a tool says is shown only when it fails
    "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "failed: $*"; }
}

attempts() { # the same, tried three times: a mirror may be slow or in the middle of an update
    local attempt
    for attempt in 1 2 3; do
        "$@" >"$work/log" 2>&1 && return
        sleep $((5 * attempt))
    done
    quietly "$@"
}

make_apt() { # OPTIONS...: sets `own_apt`, a command
    mkdir -p "$work"/apt/{lists,archives}/partial
    : >"$work/apt/status"
    own_apt=(apt-get -o APT::Sandbox::User=root -o Dir::State="$work/apt" -o Dir::State::lists="$work/apt/lists"
        -o Dir::State::status="$work/apt/status" -o Dir::Cache="$work/apt" -o Dir::Cache::archives="$work/apt/archives"
        -o Dir::Log="$work/apt" -o Acquire::Languages=none -o Acquire::Retries=3 "$@")
}

download() { # PACKAGES...: with what they depend on
    "${own_apt[@]}" update || true # sources of others may lack this architecture; what counts is the next line
    "${own_apt[@]}" install -y --download-only --no-install-recommends "$@"
}

unpack() { # FOLDER: all that was downloaded, without the scripts of the packages
    local package
    mkdir -p "$1"
    for package in "$work"/apt/archives/*.deb; do
        dpkg-deb -x "$package" "$1"
    done
    [[ -e $1/lib ]] || ln -s usr/lib "$1/lib" # made by another package since Debian 13
}
