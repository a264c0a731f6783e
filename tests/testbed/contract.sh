#!/usr/bin/env bash
# The contract of a site and what ends of attempts mean, on real clusters under this machine's Slurm
# that are started here, by their commands and over SSH, as an ordinary user. As root, on Debian.
#
#   contract.sh PROGRAMS [WORD..]
#
# The directory PROGRAMS has the built test as `contract`, `site-agent`, and the whole program `cospan`;
# with words only tests are run whose names have one of them.
set -euo pipefail

testbed=$(dirname "$0")/slurm.sh
export COSPAN_TESTBED=${COSPAN_TESTBED:-/var/tmp/cospan-testbed}
base=$COSPAN_TESTBED said=$COSPAN_TESTBED/said
programs=$1
shift
# Most tests wait for something, and each needs a cluster for itself.
clusters=(ci0 ci1 ci2)
obey=() confs=

end() {
    local cluster
    [ ${#obey[@]} -eq 0 ] || kill "${obey[@]}" 2> /dev/null || true
    for cluster in ssh ci3 "${clusters[@]}"; do
        "$testbed" down "$cluster"
    done
    umount "$base/root/noexec" 2> /dev/null || true
    rm -rf "$base"
}

start() {
    local number cluster
    for number in 0 1 2; do
        "$testbed" up "${clusters[number]}" 64 "274${number}0" pair
        confs+=${confs:+:}$("$testbed" conf "${clusters[number]}")
    done
    # One of which the user that tests run as may ask for reservations.
    "$testbed" up ci3 64 27430 granting
    config=$("$testbed" ssh 27500)
    user=$("$testbed" user)
    as_user=(setpriv --reuid="$user" --regid="$user" --clear-groups)
    install -d -o "$user" "$base/root" "$base/root/orders"
    install -d "$base/root/noexec"
    mount -t tmpfs -o "noexec,mode=700,uid=$(id -u "$user")" cospan-noexec "$base/root/noexec"
    for cluster in "${clusters[@]}"; do
        install -d -o "$user" "$base/root/orders/$cluster"
        "$testbed" obey "$cluster" "$base/root/orders/$cluster" &
        obey+=($!)
    done
}

run_tests() {
    timeout 900 "${as_user[@]}" env HOME="$base/root" \
        COSPAN_TEST_SLURM_CONF="$confs" COSPAN_TEST_SLURM_ROOT="$base/root" \
        COSPAN_TEST_SLURM_GRANTING="$("$testbed" conf ci3)" \
        COSPAN_TEST_SITE_AGENT="$base/site-agent" \
        COSPAN_TEST_SLURM_SSH=testbed COSPAN_TEST_SLURM_SSH_CONFIG="$config" \
        COSPAN_TEST_SLURM_ORDERS="$base/root/orders" COSPAN_TEST_SLURM_NOEXEC="$base/root/noexec" \
        "$base/contract" --test-threads=${#clusters[@]} "$@"
}

# The whole program, where starts are promised.
keep_promises() {
    install "$(dirname "$0")/promise.sh" "$programs/cospan" "$base"
    # That one may have planted faults, too.
    timeout 300 "${as_user[@]}" env COSPAN_ALLOW_CHAOS=true \
        "$base/promise.sh" "$base/cospan" "$("$testbed" conf ci3)" "$base/root/promise" 27600
}

# What a user sees of a refusal.
show_refusals() {
    install "$(dirname "$0")/refusal.sh" "$base"
    timeout 300 "${as_user[@]}" env COSPAN_ALLOW_CHAOS=true \
        "$base/refusal.sh" "$base/cospan" "$("$testbed" conf ci0)" "$base/root/refusal" 27700
}

main() {
    local code=0
    start
    # Put where that user can read it, whoever owns this directory.
    install "$programs/contract" "$programs/site-agent" "$base"
    SLURM_CONF=$("$testbed" conf ci0) sbatch --version
    run_tests "$@" > "$said" 2>&1 || code=$?
    [ $# -gt 0 ] || keep_promises >> "$said" 2>&1 || code=$?
    [ $# -gt 0 ] || show_refusals >> "$said" 2>&1 || code=$?
    cat "$said"
    # A test that finds no cluster passes: here there are some.
    if grep '^SKIPPED' "$said"; then
        echo "what needs a real Slurm was skipped, and nothing was shown"
        code=1
    fi
    # What nobody could look at afterwards.
    [ "$code" -eq 0 ] || tail -n 60 "$base"/ci?/log/slurm*.log
    return "$code"
}

trap end EXIT
main "$@"
