#!/usr/bin/env bash
# Makes the package, installs it below a directory of its own and runs what it installed:
# check.sh BINARY [BYTES [static]]. Compiles nothing. As an ordinary user the package is unpacked,
# not installed. The program must be no longer than BYTES and, where `static` says so, need no
# library.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
binary=${1:?"name the program, as packaging/build.sh prints it"}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root/etc" "$root/var/lib/dpkg"/{updates,info} "$work/home"
touch "$root/var/lib/dpkg/status" "$root/etc"/{passwd,group,shadow,gshadow}

package=$("$here/deb.sh" "$binary" "$work")
# Neither a user's programs nor settings of this shell count for what is installed.
clean() { env -i PATH="$root/usr/bin:/usr/bin:/bin" HOME="$work/home" "$@"; }
own() { dpkg --root="$root" --force-script-chrootless --force-depends "$@" > "$work/log" 2>&1 ||
    { cat "$work/log"; return 1; }; }
if [ "$(id -u)" -eq 0 ]; then
    own --install "$package"
    grep -q '^cospan:.*:/var/lib/cospan:' "$root/etc/passwd"
    [ "$(stat -c '%a' "$root/etc/cospan/cospan.toml")" = 640 ]
else
    dpkg-deb --extract "$package" "$root"
fi

[ "$(clean cospan --version)" = "$("$binary" --version)" ]
size=$(stat -c %s "$root/usr/bin/cospan")
[ "$size" -le "${2:-$size}" ] || { echo "it has $size bytes and not at most $2"; exit 1; }
if [ "${3:-}" = static ] && readelf --dynamic "$root/usr/bin/cospan" | grep NEEDED; then
    echo "it needs libraries"
    exit 1
fi
clean cospan config check --config "$root/etc/cospan/cospan.toml"
clean timeout 60 cospan quickstart > "$work/quickstart" || { cat "$work/quickstart"; exit 1; }

# A page for each command, and what renders them has nothing to complain about.
for command in $(cat "$here/../tests/cli/commands.txt"); do
    [ -s "$root/usr/share/man/man1/cospan-$command.1.gz" ] || { echo "no page of $command"; exit 1; }
done
if command -v groff > /dev/null; then
    zcat "$root/usr/share/man/man1/cospan.1.gz" | groff -man -Tutf8 -ww 2> "$work/groff" > "$work/page"
    grep -q quickstart "$work/page"
    [ ! -s "$work/groff" ] || { cat "$work/groff"; exit 1; }
fi
clean bash -c ". '$root/usr/share/bash-completion/completions/cospan' && complete -p cospan" > /dev/null
if command -v systemd-analyze > /dev/null; then
    sed "s#^ExecStart=[^ ]*#ExecStart=$root/usr/bin/cospan#" \
        "$root/usr/lib/systemd/system/cospan.service" > "$work/cospan.service"
    said=$(systemd-analyze verify "$work/cospan.service" 2>&1)
    [ -z "$said" ] || { echo "$said"; exit 1; }
fi

for file in share/cospan/cospan.json share/cospan/rules.yml share/doc/cospan/book/quickstart.md \
    share/doc/cospan/examples/logrotate share/doc/cospan/examples/sweep.toml; do
    [ -s "$root/usr/$file" ] || { echo "it lacks $file"; exit 1; }
done

# Root looks after a server that has an account of its own, and writes nothing that it cannot read.
operate() {
    local home=$work/srv config=$work/operator.toml token
    operator() { clean COSPAN_CONFIG="$config" "$@"; }
    chmod 711 "$work"
    install -d -o nobody -g nogroup -m 700 "$home"
    printf '[server]\ndata_directory = "%s/data"\nlisten = ["127.0.0.1:0"]\n' "$home" > "$config"
    ! operator cospan key add early 2> "$work/said" || { echo "a key without a server"; return 1; }
    grep -q 'cospan serve' "$work/said"
    [ ! -e "$home/data" ] || { echo "key add made a data directory"; return 1; }
    operator setpriv --reuid nobody --regid nogroup --clear-groups "$root/usr/bin/cospan" serve --background
    operator cospan site list > /dev/null
    token=$(operator cospan key add alice)
    operator COSPAN_TOKEN="$token" cospan list > /dev/null
    operator cospan key list | grep -q alice
    [ "$(find "$home" ! -user nobody)" = "" ] || { echo "root wrote beside the server"; return 1; }
    mv "$home/data/server.log" "$home/data/server.log.1"
    pkill -HUP -u nobody -f "$root/usr/bin/cospan serve"
    for _ in $(seq 100); do [ -s "$home/data/server.log" ] && break; sleep 0.1; done
    grep -q SIGHUP "$home/data/server.log"
    operator cospan doctor > /dev/null
    operator cospan stop > /dev/null
}
if [ "$(id -u)" -eq 0 ]; then
    operate || { cat "$work/srv/data/server.log"*; exit 1; }
    own --purge cospan
    left=$(find "$root" -type f ! -path "$root/var/lib/dpkg/*" ! -path "$root/etc/*")
    [ -z "$left" ] || { echo "left behind: $left"; exit 1; }
fi
echo "$(basename "$package"): $((size / 1024 / 1024)) MiB, installed, run and taken away again"
