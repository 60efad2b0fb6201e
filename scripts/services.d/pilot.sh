# shellcheck shell=bash
# shellcheck disable=SC2154 # cache, home, work: scripts/services
# The Pilot network: pilotctl and pilot-daemon from PyPI, and our own stand-in for the registry and the beacon, for which no
# program is published. Tests start the daemons by themselves, since they kill them.

pilot_version=1.18.0
pilot_bin=$cache/pilot-$pilot_version

get_pilot() {
    need python3 "install Python 3.9 or later with pip"
    once "pilot-$pilot_version" fetch_pilot
}

fetch_pilot() {
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --retries 10 --dest "$work/wheel" \
        "pilotprotocol==$pilot_version" || no "PyPI has no pilotprotocol $pilot_version for this system"
    python3 -m zipfile -e "$work"/wheel/*.whl "$work/wheel"
    cp "$work"/wheel/pilotprotocol/bin/{pilotctl,pilot-daemon} "$work/out"
    chmod 755 "$work/out"/*
}

start_pilot() {
    local registry beacon
    spawn network TERM python3 tests/pilot/network.py "$home/network"
    wait_healthy network check_pilot
    read -r registry beacon <"$home/network"
    export_as BATON_TEST_PILOT_REGISTRY "127.0.0.1:$registry"
    export_as BATON_TEST_PILOT_BEACON "127.0.0.1:$beacon"
    export_as BATON_TEST_PILOTCTL "$pilot_bin/pilotctl"
    export_as BATON_TEST_PILOT_DAEMON "$pilot_bin/pilot-daemon"
}

check_pilot() {
    local registry
    all_run
    read -r registry _ <"$home/network"
    (exec 3<>"/dev/tcp/127.0.0.1/$registry")
}
