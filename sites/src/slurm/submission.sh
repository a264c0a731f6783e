# Submits by sbatch; see ../agent/submission.sh.

lrm_submit() {
    set -- sbatch --parsable "$@" "$root/$stub" "$root/$wrapper" "$root" "$tag"
    [ "$limit" -eq 0 ] || set -- timeout -k 2 "$limit" "$@"
    # Jobs get the mask of the submission, and payloads shall have that of a login.
    said=$(umask "$login_mask" && exec "$@" 2>&1)
    code=$?
    printf 'code %s\n' "$code"
    # With warnings around the number, and the cluster's name behind a semicolon.
    while [ -n "$said" ]; do
        line=${said%%"$nl"*}
        case $said in *"$nl"*) said=${said#*"$nl"} ;; *) said= ;; esac
        printf 'said %s\n' "$line"
        [ "$code" -eq 0 ] || continue
        case ${line%%;*} in '' | *[!0-9]*) ;; *) number=${line%%;*} ;; esac
    done
}

if [ "$verb" = submit ]; then
    reach
    submit "$@"
    printf 'done\n'
    exit
fi
