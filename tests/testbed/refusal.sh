#!/usr/bin/env bash
# What a user sees of a batch system that refuses a job: its own words at once, and the job elsewhere
# where another site is left. Nobody is charged: the site stays open to all others. Run as an ordinary
# user of a cluster that refuses jobs of 13 processors without a reason.
#
#   refusal.sh PROGRAM SLURM_CONF DIRECTORY PORT
#
# DIRECTORY is made, and left.
set -euo pipefail

program=$1 directory=$3
export SLURM_CONF=$2 COSPAN_CONFIG=$3/cospan.toml HOME=$3
mkdir "$directory"
cd "$directory"
cat > cospan.toml << END
[server]
data_directory = "$directory/data"
listen = ["127.0.0.1:$4"]
[[site]]
name = "there"
kind = "slurm"
root = "$directory/there"
slurm_conf = "$SLURM_CONF"
processors = 64
[[site]]
name = "here"
kind = "local"
root = "$directory/here"
processors = 16
END

cospan() {
    "$program" "$@"
}

fail() {
    echo "refusal: $*" >&2
    cat said >&2
    cospan site list >&2 || true
    exit 1
}

# Submits a job, waits for it, and leaves what is printed in `said`.
submitted() {
    timeout 60 "$program" submit --wait "$@" > said 2>&1
}

cospan serve --background
trap 'cospan stop > /dev/null' EXIT

echo "== no other site is left"
for _ in 1 2 3 4; do
    ! submitted --site there -n 13 -- true || fail "it ran"
    grep -q 'failed.*the batch system of there refuses it (.*Unspecified error' said \
        || fail "the batch system's words are not told"
done
# More than a site's charges would take.
cospan site list | grep -E '^there +usable' > /dev/null || fail "the site was charged"
submitted --site there -n 12 -- true || fail "others cannot use the site"

# The site with more idle processors comes first. Slurm takes a moment to have them back.
for _ in $(seq 300); do
    ! cospan site list | grep -E '^there +usable +64 +64' > /dev/null || break
    sleep 0.2
done

echo "== another site is left"
submitted -n 13 -- true || fail "it did not go elsewhere"
grep -q 'the batch system of there refuses component' said || fail "the refusal is not told"
cospan show last | grep -q 'refused by there: .*Unspecified error' || fail "show does not tell it"
cospan show last | grep -q ' here ' || fail "it did not run here"
