#!/usr/bin/env bash
# Makes the Debian package of a program that was built: deb.sh BINARY DIRECTORY [VERSION]. Prints
# the package's path. Needs dpkg-deb, gzip and binutils; compiles nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
binary=${1:?"name the program, as packaging/build.sh prints it"}
to=${2:?"name a directory for the package"}
version=${3:-$("$binary" --version | awk 'NR == 1 { print $2 }')}
architecture=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/cospan
umask 022

install -D -m 755 "$binary" "$root/usr/bin/cospan"
strip --strip-all "$root/usr/bin/cospan"
install -d "$root/usr/lib/systemd/system" "$root/usr/share/doc/cospan" "$root/etc/cospan"
sed -e 's#^ExecStart=/usr/local/bin/#ExecStart=/usr/bin/#' -e '1d' \
    "$here/../docs/src/operations/cospan.service" > "$root/usr/lib/systemd/system/cospan.service"
install -m 640 "$here/cospan.toml" "$root/etc/cospan/cospan.toml"

"$binary" man --to "$root/usr/share/man/man1"
gzip -9 --no-name "$root"/usr/share/man/man1/*
completion() {
    mkdir -p "$root/usr/share/$2"
    "$binary" completion "$1" > "$root/usr/share/$2/$3"
}
completion bash bash-completion/completions cospan
completion zsh zsh/vendor-completions _cospan
completion fish fish/vendor_completions.d cospan.fish

documents=$root/usr/share/doc/cospan
cp -r "$here/../examples" "$documents/examples"
cp "$here/logrotate" "$documents/examples/logrotate"
install -d "$documents/book" "$root/usr/share/cospan"
cp -r "$here/../docs/src/." "$documents/book"
for file in cospan.json rules.yml; do
    install -m 644 "$here/../dashboards/$file" "$root/usr/share/cospan/$file"
done

gzip -9 --no-name < "$here/../CHANGELOG.md" > "$root/usr/share/doc/cospan/changelog.gz"
{
    echo "Cospan is under the MIT licence or the Apache licence 2.0, as you choose."
    echo "The latter is in /usr/share/common-licenses/Apache-2.0, the former is this:"
    echo
    cat "$here/../LICENSE-MIT"
} > "$root/usr/share/doc/cospan/copyright"

install -d "$root/DEBIAN"
echo /etc/cospan/cospan.toml > "$root/DEBIAN/conffiles"
for script in postinst prerm postrm; do
    install -m 755 "$here/debian/$script" "$root/DEBIAN/$script"
done
# A static program needs no library.
depends=passwd
if [ "$(readelf --dynamic "$binary" | grep -c NEEDED)" -gt 0 ]; then
    glibc=$(objdump -T "$binary" | grep -o 'GLIBC_[0-9.]*' | sort -V | tail -n 1)
    depends="libc6 (>= ${glibc#GLIBC_}), libgcc-s1, $depends"
fi
cat > "$root/DEBIAN/control" <<CONTROL
Package: cospan
Version: $version
Architecture: $architecture
Maintainer: The Cospan project <cospan@localhost>
Installed-Size: $(du -sk "$root" | cut -f 1)
Depends: $depends
Recommends: openssh-client
Section: admin
Priority: optional
Description: runs one job on many clusters at once
 A fault-tolerant, co-allocating control plane: it decides where each part of a
 job goes, brings its input there, claims the processors just before they
 are needed, starts all parts together, and carries on when sites fail.
CONTROL
mkdir -p "$to"
dpkg-deb --root-owner-group --build "$root" "$to/cospan_${version}_$architecture.deb" > /dev/null
echo "$to/cospan_${version}_$architecture.deb"
