# To be sourced: takes logs from a folder of whoever runs an experiment.

plain() {
    case $1 in
        *.gz) gzip -dc "$1" ;;
        *.xz) xz -dc "$1" ;;
        *) cat "$1" ;;
    esac
}

# Those of a list whose names fit, checked, plain: take_logs LIST LOGS TO [NAMES]
take_logs() {
    local name digest file address found
    while read -r name digest file address; do
        [[ $name == ${4:-*} ]] || continue
        found=$(find "$2" -name "$file" -o -name "$file.gz" -o -name "$file.xz" | head -n 1)
        [ -n "$found" ] || { echo "$2 has no $file; get it from $address" >&2; exit 2; }
        plain "$found" > "$3/$name"
        echo "$digest  $3/$name" | sha256sum --check --quiet ||
            { echo "$found is another edition of the log than the one used here" >&2; exit 2; }
    done < "$1"
}
