# Reservations of Slurm; see slurm.sh. Those that we make have our tags as their names.

# Reservations, whoever made them; if there are any, or for `always`, also what runs, and the nodes
# of each partition. Times as seconds since 1970.
lrm_bookings() {
    booked=$(SLURM_TIME_FORMAT=%s timeout -k 2 "$seconds" scontrol -o show reservation 2>&1) \
        || fail unsent "$booked"
    booked=$(printf '%s\n' "$booked" | grep '^ReservationName=')
    [ -n "$booked" ] || [ "${1-}" = always ] || return 0
    lines "$booked" reserved
    running=$(SLURM_TIME_FORMAT=%s timeout -k 2 "$seconds" squeue -h \
        -t running,suspended,completing,configuring -o '%C|%e|%v|%N' 2>&1) || fail unsent "$running"
    lines "$running" running
    members=$(limited sinfo -h -o '%P|%Z|%N' 2>&1) || fail unsent "$members"
    lines "$members" members
}

# Runs scontrol with $@; prints its code and what it said.
lrm_control() {
    said=$(limited scontrol "$@" 2>&1)
    printf 'code %s\n' "$?"
    lines "$said" said
}

# What can be known of what is free later.
lrm_timetable() {
    tell_clock
    lrm_load always
}

# lrm_reserve NAME FROM TO CORES PARTITION IDLE      unconfirmed ends by itself if it is idle so long
#
# Cores, never nodes: Slurm grants whole nodes over cores that are reserved already.
lrm_reserve() {
    lrm_control create reservation "reservationname=$1" "users=$user" "starttime=uts$2" \
        "endtime=uts$3" "corecnt=$4" ${5:+"partitionname=$5"} "flags=PURGE_COMP=$6"
}

lrm_confirm() {
    lrm_control update "reservationname=$1" flags-=PURGE_COMP
}

lrm_release() {
    lrm_control delete "reservationname=$1"
}
