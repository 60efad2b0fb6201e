# shellcheck shell=bash
# shellcheck disable=SC2154 # cache: scripts/services
# Where binaries come from. Everything is made in a folder beside its place and renamed into it, under a lock:
# whoever looks sees all of it or nothing, and who comes second waits and finds it.

# once FOLDER COMMAND...: runs COMMAND in a fresh folder that becomes $cache/FOLDER when it succeeds.
once() {
    local folder=$cache/$1
    shift
    if [[ -d $folder ]]; then return 0; fi
    mkdir -p "$cache"
    exec 8>"$folder.lock"
    flock 8
    if [[ -d $folder ]]; then return 0; fi
    work=$(mktemp -d "$cache/build.XXXXXX")
    trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
    mkdir "$work/out"
    chmod 755 "$work/out"
    (cd "$work" && "$@") 8>&-
    mv -T "$work/out" "$folder"
    exec 8>&-
}

need() {
    if ! command -v "$1" >/dev/null; then no "$1 is missing; hint: $2"; fi
}

# in_go COMMAND...: reproducibly and without the settings of whoever calls. The toolchain may fetch a newer one
# of itself.
in_go() {
    need go "install Go 1.21 or later"
    env -u GOROOT CGO_ENABLED=0 GOFLAGS="-mod=mod -buildvcs=false" GOWORK=off GOTOOLCHAIN=auto nice -n 19 go "$@"
}

# go_build BINARY PACKAGE [LINKER-FLAGS]: into the folder that `once` keeps.
go_build() { in_go build -trimpath -ldflags "-s -w ${3:-}" -o "$work/out/$1" "$2"; }

# shellcheck disable=SC2034 # used in the other parts
release=$(sed -nE 's/^(ID|VERSION_ID)="?([^"]*)"?$/\2/p' /etc/os-release 2>/dev/null | sort -r | tr -d '\n' || true)

# debian_packages PACKAGE...: unpacks them, and what they need and the system has not, without installing them: so no
# service is enabled, no cluster is made, and root is not needed.
debian_packages() {
    local wanted
    need apt-get "this needs Debian or a system like it"
    if ! apt-get -s --no-install-recommends install "$@" >"$work/simulation"; then
        if [[ $(id -u) == 0 ]]; then apt-get update; fi
        apt-get -s --no-install-recommends install "$@" >"$work/simulation" || no "apt has no package $*"
    fi
    mapfile -t wanted < <(sed -n 's/^Inst \([^ ]*\) .*/\1/p' "$work/simulation")
    mkdir "$work/debs"
    chmod 777 "$work/debs"
    if ! (cd "$work/debs" && apt-get download "${wanted[@]}"); then
        # The lists may name versions that are gone.
        if [[ $(id -u) == 0 ]]; then apt-get update; fi
        (cd "$work/debs" && apt-get download "${wanted[@]}") || no "apt cannot download ${wanted[*]}"
    fi
    for deb in "$work"/debs/*.deb; do dpkg-deb -x "$deb" "$work/out"; done
}

# debian_package_alone PACKAGE: unpacks it without what it needs, for one program that needs none of that.
debian_package_alone() {
    need apt-get "this needs Debian or a system like it"
    mkdir "$work/debs"
    chmod 777 "$work/debs"
    if ! (cd "$work/debs" && apt-get download "$1"); then
        if [[ $(id -u) == 0 ]]; then apt-get update; fi
        (cd "$work/debs" && apt-get download "$1") || no "apt cannot download $1"
    fi
    dpkg-deb -x "$work"/debs/*.deb "$work/out"
}

# debian_install PACKAGE...: for what works only in its own place. Starts no service.
debian_install() {
    if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then return 1; fi
    if ! apt-get -s install "$@" >/dev/null; then return 1; fi
    DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y --no-install-recommends "$@"
}

# certificates FOLDER: a new authority (ca.crt) and a certificate by it for 127.0.0.1 (server.crt, server.key). They are
# valid since long ago: tests move the wall clocks of clients.
certificates() {
    need openssl "install openssl"
    local curve=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
    mkdir -p "$1"
    mkdir -p "$1/issued"
    : >"$1/index.txt"
    cat >"$1/ca.conf" <<TEXT
[ca]
default_ca = own
[own]
database = $1/index.txt
new_certs_dir = $1/issued
rand_serial = yes
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = CA:FALSE
keyUsage = digitalSignature
extendedKeyUsage = serverAuth,clientAuth
subjectAltName = IP:127.0.0.1,DNS:localhost
authorityKeyIdentifier = keyid
TEXT
    local sign=(openssl ca -batch -notext -config "$1/ca.conf" -keyfile "$1/ca.key"
        -startdate 20200101000000Z -enddate 20491231000000Z)
    openssl req -new "${curve[@]}" -keyout "$1/ca.key" -out "$1/ca.csr" -subj "/CN=Baton test authority"
    "${sign[@]}" -selfsign -extensions authority -in "$1/ca.csr" -out "$1/ca.crt"
    openssl req -new "${curve[@]}" -keyout "$1/server.key" -out "$1/server.csr" -subj "/CN=127.0.0.1"
    "${sign[@]}" -cert "$1/ca.crt" -extensions server -in "$1/server.csr" -out "$1/server.crt"
}

secret() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }
