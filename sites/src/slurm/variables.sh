# What an account's start files set would change what Slurm's commands do: where they look, what they
# print, whom they mean. Its account and quality of service are its own affair. $unset names them.
set -f
unset=
for word in $(export -p); do
    word=${word%%=*}
    case $word in
    *[!A-Z0-9_]* | SBATCH_ACCOUNT | SBATCH_QOS) ;;
    SQUEUE_* | SINFO_* | SCANCEL_* | SACCT_* | SBATCH_* | SLURM_CLUSTERS | SLURM_TIME_FORMAT)
        unset "$word"
        unset="$unset $word"
        ;;
    esac
done

