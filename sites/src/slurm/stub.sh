#!/bin/sh
# Calls the wrapper $1 for root $2 and tag $3, on a node. POSIX shell; starts no process.

# On a node that lacks the root nothing is written at all: Slurm itself would make directories.
exec >> "$2/spool/$3/log" 2>&1 || exit 74

# A newer Slurm gives none of these to a job that exports nothing. PATH has what the shell takes.
export PATH
user=${SLURM_JOB_USER-}
case $user in
'' | *[!A-Za-z0-9._-]*) ;;
*)
    export USER="${USER-$user}" LOGNAME="${LOGNAME-$user}"
    [ -n "${HOME-}" ] || eval "HOME=~$user"
    export HOME
    ;;
esac
# Else what a payload calls a directory could be another one.
unset user CDPATH
wrapper=$1
shift
exec /bin/sh "$wrapper" "$@" batch
