# shellcheck shell=bash
# shellcheck disable=SC2154 # home: scripts/services
# Google's emulators of Firestore, Spanner and Pub/Sub: components of the Google Cloud SDK.

# sdk: the root of the SDK; nothing if there is none. gcloud stands in its bin folder; where it does not, it can be
# asked, which takes a second.
sdk() {
    local gcloud folder
    gcloud=$(command -v gcloud) || return 0
    folder=$(dirname "$(dirname "$(readlink -f "$gcloud")")")
    if [[ -f $folder/bin/gcloud && -d $folder/platform ]]; then
        echo "$folder"
    else
        gcloud info --format='value(installation.sdk_root)' 2>/dev/null || true
    fi
}

# emulator FILE PACKAGE: fails unless the SDK has FILE; tries the package where apt knows of one.
emulator() {
    need curl "install curl"
    if [[ -e $(sdk)/$1 ]]; then return 0; fi
    if debian_install google-cloud-cli "google-cloud-cli-$2" && [[ -e $(sdk)/$1 ]]; then return 0; fi
    if [[ -z $(sdk) ]]; then
        no "the Google Cloud SDK is missing; hint: install gcloud, https://cloud.google.com/sdk/docs/install"
    fi
    no "the SDK lacks its $2; hint: apt-get install google-cloud-cli-$2, or gcloud components install ${3:-$2}"
}

java_needed() {
    if command -v java >/dev/null || debian_install default-jre-headless; then return 0; fi
    no "java is missing; hint: install a Java runtime, 17 or later"
}

# Small heaps: what tests keep in them is small.
java_flags=(-Xms32m -XX:+UseSerialGC -Duser.language=en)

answers() { curl --silent --show-error --fail --max-time 5 --noproxy '*' --output /dev/null "http://$1"; }

check_google() {
    all_run
    answers "$(<"$home/probe")"
}

get_firestore() {
    emulator platform/cloud-firestore-emulator/cloud-firestore-emulator.jar firestore-emulator cloud-firestore-emulator
    java_needed
}

start_firestore() {
    local port
    free_port port
    # As its own script does, but without the shell in between.
    spawn firestore TERM java "${java_flags[@]}" -Xmx512m \
        -cp "$(sdk)/platform/cloud-firestore-emulator/cloud-firestore-emulator.jar" \
        com.google.cloud.datastore.emulator.firestore.CloudFirestore start --host=127.0.0.1 --port="$port"
    echo "127.0.0.1:$port/" >"$home/probe"
    wait_healthy firestore check_firestore
    export_as BATON_TEST_FIRESTORE "127.0.0.1:$port"
}

check_firestore() { check_google; }

get_pubsub() {
    emulator platform/pubsub-emulator/bin/cloud-pubsub-emulator pubsub-emulator
    java_needed
}

start_pubsub() {
    local port
    free_port port
    JAVA_OPTS="${java_flags[*]} -Xmx256m" spawn pubsub TERM \
        "$(sdk)/platform/pubsub-emulator/bin/cloud-pubsub-emulator" --host=127.0.0.1 --port="$port"
    echo "127.0.0.1:$port/" >"$home/probe"
    wait_healthy pubsub check_pubsub
    export_as BATON_TEST_PUBSUB "127.0.0.1:$port"
}

check_pubsub() { check_google; }

get_spanner() { emulator bin/cloud_spanner_emulator/gateway_main spanner-emulator cloud-spanner-emulator; }

start_spanner() {
    local grpc http bin
    bin=$(sdk)/bin/cloud_spanner_emulator
    free_port grpc
    free_port http
    spawn spanner TERM "$bin/gateway_main" --hostname 127.0.0.1 --grpc_port "$grpc" --http_port "$http" \
        --grpc_binary "$bin/emulator_main"
    # The gateway answers this by asking the emulator behind it.
    echo "127.0.0.1:$http/v1/projects/probe/instances" >"$home/probe"
    wait_healthy spanner check_spanner
    export_as BATON_TEST_SPANNER "127.0.0.1:$grpc"
    export_as BATON_TEST_SPANNER_REST "127.0.0.1:$http"
}

check_spanner() { check_google; }
