#!/usr/bin/env bash
# ARC 7.0.0 (Debian 13: python3-nordugrid-arc, nordugrid-arc-plugins-needed): the middleware of NorduGrid, and xRSL, its
# descriptions of jobs.
#
# One would expect: what is not a time is refused, as (count=x) is; with (walltime="36:00:00") the job has 36 hours, or is not
# submitted. (memory="4GB") is 4 GB or refused, and (memory<1000) is not the same as (memory>1000).
# What it does: a time is read as numbers with units behind them, by the first letter, and what does not fit ends with 0. So
# 36:00:00, 1.5 hours, 90.5, PT1.5H and any word are all a limit of 0 s, parsed with success and written on as <WallTime>0. A
# month is a minute, since it begins with m; P1M is 30 days. Of a memory the digits in front count: 4GB are 4 MB. The
# comparisons =, < and > of memory are one and the same; of an "or" of two, the first is taken.
#
# Seen (walltime, in seconds; all are accepted):
#   60 (minutes)   3600     90 seconds     90     1 day 2 hours  93600
#   36h          129600     PT36H      129600     P1M          2592000
#   36:00:00          0     1.5 hours       0     1 month           60
#   90.5              0     PT1.5H          0     soon               0
#   memory, in MB: =1000, <1000, >1000 and |(memory>1000)(memory<500) are 1000; ="4GB" is 4
#   count=x, count=1.5: refused
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Debian's packages and what they need are unpacked below the directory; nothing is installed.
unpack() { # SUITE PACKAGE...
    local root=$dir/$1 apt=$dir/$1.apt mirror part deb
    mirror=$(awk '!/^#/ { for (i = 1; i <= NF; i++) if ($i ~ /^https?:/) { print $i; exit } }' \
        $(ls /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources 2> /dev/null) < /dev/null)
    mkdir -p "$apt/lists" "$apt/cache" "$root"/usr/{bin,sbin,lib,lib64}
    for part in bin sbin lib lib64; do ln -s "usr/$part" "$root/$part"; done
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" > "$apt/list"
    : > "$apt/status"
    local options=(-qq -y -o Dir::Etc::sourcelist="$apt/list" -o Dir::Etc::sourceparts=/dev/null
        -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache"
        -o APT::Sandbox::User=root -o Acquire::Languages=none)
    apt-get "${options[@]}" update > /dev/null
    apt-get "${options[@]}" --no-install-recommends --download-only install "${@:2}" > /dev/null 2>&1
    for deb in "$apt"/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$root" --keep-directory-symlink --exclude='./usr/share/*'
    done
    rm -r "$apt"
}
unpack trixie 'python3-nordugrid-arc=7.0.0-3*' 'nordugrid-arc-plugins-needed=7.0.0-3*'

cat > "$dir/run.py" <<'P'
import arc
def parse(relation):
    jobs = arc.JobDescriptionList()
    if not arc.JobDescription.Parse("&(executable=/bin/true)" + relation, jobs):
        return None
    return jobs[0]
for time in ("60", "90 seconds", "1 day 2 hours", "36h", "PT36H", "P1M", "36:00:00", "1.5 hours", "1 month", "90.5",
             "PT1.5H", "soon"):
    job = parse('(walltime="' + time + '")')
    print(time, job.Resources.TotalWallTime.range.max, job.UnParse("emies:adl")[1].split("WallTime>")[1][:-2])
for relation in ("(memory=1000)", "(memory<1000)", "(memory>1000)", "(|(memory>1000)(memory<500))", '(memory="4GB")'):
    print(relation, parse(relation).Resources.IndividualPhysicalMemory.max)
print("count", parse("(count=x)"), parse("(count=1.5)"))
P
lib=$(echo "$dir"/trixie/usr/lib/*-linux-gnu)
seen=$(HOME=$dir PYTHONHOME=$dir/trixie/usr PYTHONPATH=$dir/trixie/usr/lib/python3/dist-packages ARC_LOCATION=$dir/trixie/usr \
    ARC_PLUGIN_PATH=$dir/trixie/usr/lib/arc "$lib"/ld-linux-*.so.* --library-path "$lib:$dir/trixie/usr/lib" \
    "$dir"/trixie/usr/bin/python3.13 "$dir/run.py" 2> /dev/null)
expected='60 3600 3600
90 seconds 90 90
1 day 2 hours 93600 93600
36h 129600 129600
PT36H 129600 129600
P1M 2592000 2592000
36:00:00 0 0
1.5 hours 0 0
1 month 60 60
90.5 0 0
PT1.5H 0 0
soon 0 0
(memory=1000) 1000
(memory<1000) 1000
(memory>1000) 1000
(|(memory>1000)(memory<500)) 1000
(memory="4GB") 4
count None None'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
