#!/usr/bin/env bash
# Builds the container as its recipe says, without an engine of containers, serves from it with its
# own command and asks it: check_container.sh PACKAGE. Needs root, buildah, debootstrap and curl, and
# a mirror of Debian: the image that the recipe begins with is made of its packages.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
package=${1:?"name the package, as packaging/deb.sh prints it"}
mirror=${COSPAN_DEBIAN:-http://deb.debian.org/debian}
# Layers are copies of each other: about a gigabyte.
work=$(mktemp -d "${TMPDIR:-/var/tmp}/cospan-container.XXXXXX")
served=
end() {
    [ -z "$served" ] || kill "$served" 2> /dev/null || true
    rm -rf "$work"
}
trap end EXIT
build() { buildah --root "$work/store" --runroot "$work/run" --storage-driver vfs "$@"; }
quiet() { "$@" > "$work/log" 2>&1 || { tail -n 20 "$work/log"; return 1; }; }

base=$(sed -n 's/^FROM debian:\([a-z]*\)-slim$/\1/p' "$here/Containerfile")
quiet debootstrap --variant=minbase "$base" "$work/base" "$mirror"
empty=$(build from scratch)
quiet build copy "$empty" "$work/base" /
quiet build commit "$empty" "localhost/debian:$base"
rm -rf "$work/base"

mkdir "$work/context"
cp "$package" "$work/context"
quiet build build --isolation chroot --from "localhost/debian:$base" \
    --file "$here/Containerfile" --tag cospan "$work/context"

container=$(build from localhost/cospan)
inside() { build run --isolation chroot "$@"; }
stated='{{range .OCIv1.Config.Entrypoint}}{{.}} {{end}}{{range .OCIv1.Config.Cmd}}{{.}} {{end}}'
stated=$(build inspect --type image --format "$stated" localhost/cospan)
[ "$(inside "$container" -- id -un)" = cospan ]
inside "$container" -- ssh -V 2> "$work/ssh"
# A port at which nobody answers, and nothing else than the command that the image states.
port=$((20000 + RANDOM % 10000))
while (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null; do port=$((port + 1)); done
printf '[server]\nlisten = ["127.0.0.1:%s"]\n' "$port" > "$work/cospan.toml"
with_config=(--volume "$work/cospan.toml:/etc/cospan/cospan.toml:ro")
read -ra command <<< "$stated"
inside "${with_config[@]}" "$container" -- "${command[@]}" > "$work/served" 2>&1 &
served=$!
ask() { inside "${with_config[@]}" "$container" -- cospan "$@" > "$work/asked" 2>&1; }
for _ in {1..300}; do
    ask site list && break
    kill -0 "$served" 2> /dev/null || { cat "$work/served"; exit 1; }
    sleep 0.1
done
ask site list || { cat "$work/asked" "$work/served"; exit 1; }
ask stop || { cat "$work/asked"; exit 1; }
wait "$served" || { cat "$work/served"; exit 1; }
served=
echo "the container of Debian $base: built, served and ended"
