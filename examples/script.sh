#!/bin/sh
#SBATCH --job-name=count
#SBATCH --ntasks=2
#SBATCH --time=10

echo "$SLURM_JOB_NAME has $SLURM_NTASKS tasks"
