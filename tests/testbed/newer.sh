#!/usr/bin/env bash
# A newer Debian below a directory of this machine, for its Slurm: trixie has 24.11, forky 26.05. What
# is run there has processes, network and mounts of its own: it finds nobody else's Slurm, and what it
# leaves running ends with it. Debian, as root.
#
#   newer.sh make SUITE           install it from this machine's own mirror, if it is not there
#   newer.sh run SUITE COMMAND..  run a command there, in this directory, which has the same name there
#   newer.sh remove SUITE         remove it
#
# COSPAN_CHROOTS is where they lie (default /var/tmp/cospan-chroots).
set -euo pipefail

packages=(slurmctld slurmd slurm-client munge openssh-server openssh-client procps)

fail() {
    echo "newer: $*" >&2
    exit 1
}

# The first mirror in this machine's own lists.
mirror() {
    awk '/^URIs:/ { print $2; exit }
        /^deb / { for (i = 2; i <= NF; i++) if ($i ~ /^http/) { print $i; exit } }' \
        $(ls /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources 2> /dev/null)
}

# Half of one is never taken for a whole one.
make() {
    [ ! -d "$place" ] || return 0
    command -v debootstrap > /dev/null || install_debootstrap
    local half=$place.half source options=() list
    source=$(mirror)
    [ -n "$source" ] || fail "no mirror in /etc/apt/sources.list or sources.list.d/debian.sources"
    # A copy of the mirror may be older than its own list says.
    ! apt-config dump | grep -q '^Acquire::Check-Valid-Until "false"' \
        || options=(-o Acquire::Check-Valid-Until=false)
    rm -rf "$half"
    mkdir -p "$half"
    debootstrap --variant=minbase "$suite" "$half" "$source" /usr/share/debootstrap/scripts/sid > "$half.log" 2>&1 \
        || fail "debootstrap of $suite from $source failed; see $half.log"
    # The services that come along are not to be started.
    printf '#!/bin/sh\nexit 101\n' > "$half/usr/sbin/policy-rc.d"
    chmod +x "$half/usr/sbin/policy-rc.d"
    list="deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $source $suite main"
    echo "$list" > "$half/etc/apt/sources.list"
    cp -L /etc/resolv.conf /etc/hosts "$half/etc/"
    local command
    for command in update "install --no-install-recommends ${packages[*]}" clean; do
        # shellcheck disable=SC2086
        "${settings[@]}" unshare --mount sh -c 'mount --bind /dev "$0/dev" && mount -t proc proc "$0/proc" && exec chroot "$@"' \
            "$half" "$half" apt-get -qqy "${options[@]}" $command >> "$half.log" 2>&1 \
            || fail "apt-get $command failed in $suite; see $half.log"
    done
    mv "$half" "$place"
    rm "$half.log"
}

install_debootstrap() {
    apt-get -qq update > /dev/null || fail "apt-get update failed"
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends debootstrap > /dev/null \
        || fail "debootstrap is missing, and cannot be installed"
}

# The last command's exit code is ours, and nothing that it started outlives it.
run() {
    make
    exec 9> "$place.lock"
    flock --nonblock 9 || fail "something runs in $suite already"
    rm -rf "$place"/var/tmp/cospan-*
    mkdir -p "$place$PWD"
    # Names are found only where a machine has an address besides those of the loopback.
    # shellcheck disable=SC2016
    exec unshare --pid --fork --kill-child --net --mount --uts sh -ec '
        place=$1 here=$2
        shift 2
        mount --rbind /dev "$place/dev"
        mount -t proc proc "$place/proc"
        mount -t sysfs sys "$place/sys"
        mount --bind "$here" "$place$here"
        ip link set lo up
        ip address add 192.0.2.1/32 dev lo
        exec chroot "$place" sh -c "cd \"\$0\" && exec \"\$@\"" "$here" "$@"' \
        - "$place" "$PWD" "${settings[@]}" "$@"
}

command=${1:-}
suite=${2:-}
[ $# -lt 2 ] || shift 2
[ "$(id -u)" -eq 0 ] || fail "only root can start clusters"
case $suite in
    trixie | forky) ;;
    *) fail "make, run or remove, and trixie or forky? The beginning of $0 says more" ;;
esac
place=${COSPAN_CHROOTS:-/var/tmp/cospan-chroots}/$suite
settings=(env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive)
case $command in
    make) make ;;
    run) run "$@" ;;
    remove) rm -rf "$place" "$place".* ;;
    *) fail "make, run or remove? The beginning of $0 says more" ;;
esac
