//! The payload that runs at the sites under test, and the ledger that it writes.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Lines of the file that components read in chunks: each is its number.
const GRAINS: u64 = 100_000;
/// Name of the input that is read in chunks, in place of the first line that another has.
pub const CHUNK: &str = "chunk";

/// Generates the file that components read in chunks: every byte shows where it is.
pub fn chunked_file() -> Vec<u8> {
    (0..GRAINS)
        .flat_map(|number| format!("{number:07}\n").into_bytes())
        .collect()
}

/// `payload.sh LEDGER SECONDS CODE MANNERS OUTPUT BYTES [INPUT NAME]...`
///
/// Each line is one write to a file opened for appending, so lines never mix. A later attempt of a
/// component checks whether an earlier one still lives: that wrote its own line before, so of two
/// that overlap one sees the other. With `PEERS` in its environment it checks the number of
/// components that it was given, and its own place. None ends by itself while there is
/// `LEDGER.hold`. Of [`chunked_file`] it writes down which chunk it was given, and checks that it
/// has just that.
pub const SCRIPT: &str = r#"
ledger=$1 seconds=$2 code=$3 manners=$4 output=$5 bytes=$6
shift 6
read -r nonce < /proc/sys/kernel/random/uuid
echo "start $COSPAN_TAG $nonce $$ $(date +%s%3N)" >> "$ledger"
[ "$manners" = polite ] || trap '' TERM
component=${COSPAN_TAG%-*}-
if [ "${COSPAN_TAG##*-}" -gt 1 ]; then
    grep "^start $component" "$ledger" | while read -r what tag other pid at; do
        [ "$tag" != "$COSPAN_TAG" ] || continue
        if { tr '\0' '\n' < "/proc/$pid/environ"; } 2> /dev/null | grep -qx "COSPAN_TAG=$tag"; then
            echo "beside $COSPAN_TAG $nonce $$ $(date +%s%3N) $tag" >> "$ledger"
        fi
    done
fi
if [ -n "$PEERS" ]; then
    told=$(grep -c . "$COSPAN_HOSTS_FILE") place=${component%-}
    [ "$told $COSPAN_RANK" = "$PEERS ${place##*-}" ] ||
        echo "peers $COSPAN_TAG $nonce $$ $(date +%s%3N) $told" >> "$ledger"
fi
while [ "$#" -gt 0 ]; do
    if [ "$2" = chunk ]; then
        echo "$COSPAN_CHUNKS" | while read -r offset length size path; do
            [ "$path" = "$1" ] || continue
            echo "chunk $COSPAN_TAG $nonce $$ $(date +%s%3N) $offset $length" >> "$ledger"
            seq -f %07.0f 0 $((size / 8 - 1)) | tail -c +$((offset + 1)) | head -c "$length" |
                cmp -s - "$1" || echo "input $COSPAN_TAG $nonce $$ $(date +%s%3N) $1" >> "$ledger"
        done
        shift 2
        continue
    fi
    line=
    read -r line < "$1"
    [ "$line" = "$2" ] || echo "input $COSPAN_TAG $nonce $$ $(date +%s%3N) $1" >> "$ledger"
    shift 2
done
if [ "$manners" = polite ]; then
    sleep "$seconds"
else
    left=$seconds
    until [ "$left" = 0 ]; do sleep 1; left=$((left - 1)); done
fi
while [ -e "$ledger.hold" ]; do sleep 0.3; done
if [ "$output" != - ]; then
    { echo "$COSPAN_TAG"; head -c "$bytes" /dev/zero; } > "$output"
fi
echo "end $COSPAN_TAG $nonce $$ $(date +%s%3N) $code" >> "$ledger"
exit "$code"
"#;

/// A payload that started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadRun {
    pub tag: String,
    /// Drawn by the payload itself: tells two runs of one tag apart.
    pub nonce: String,
    pub pid: u32,
    /// Time of the start, in milliseconds since 1970.
    pub start_ms: u64,
    /// Time and exit code, if it ended by itself.
    pub end: Option<(u64, i32)>,
    /// Earlier attempts that were alive beside it.
    pub beside: Vec<String>,
    /// Inputs with other content than they should have.
    pub bad_inputs: Vec<String>,
    /// Set if it was given a wrong number of components, or a wrong place of its own.
    pub wrong_peers: Option<String>,
    /// The chunks that it was given: offset and length of each.
    pub chunks: Vec<(u64, u64)>,
}

/// Everything that payloads wrote, in the order of their starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PayloadLedger {
    pub runs: Vec<PayloadRun>,
}

impl PayloadLedger {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, or a line is none of the payload's.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the ledger {}", path.display()))?;
        Self::parse_ledger(&text)
    }

    /// Parses the lines of a ledger.
    ///
    /// # Errors
    /// A line is none of the payload's.
    pub fn parse_ledger(text: &str) -> Result<Self> {
        let mut ledger = Self::default();
        let mut at = BTreeMap::new();
        for line in text.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let &[what, tag, nonce, pid, ms, ref rest @ ..] = fields.as_slice() else {
                bail!("{line:?} is no line of a payload");
            };
            let ms: u64 = ms.parse().with_context(|| format!("no time in {line:?}"))?;
            if what == "start" {
                let pid = pid
                    .parse()
                    .with_context(|| format!("no process in {line:?}"))?;
                at.insert(nonce.to_owned(), ledger.runs.len());
                ledger.runs.push(PayloadRun {
                    tag: tag.into(),
                    nonce: nonce.into(),
                    pid,
                    start_ms: ms,
                    end: None,
                    beside: Vec::new(),
                    bad_inputs: Vec::new(),
                    wrong_peers: None,
                    chunks: Vec::new(),
                });
                continue;
            }
            let run = at
                .get(nonce)
                .and_then(|index: &usize| ledger.runs.get_mut(*index));
            let run = run.with_context(|| format!("{line:?} has no start"))?;
            match (what, rest) {
                ("end", [code]) => run.end = Some((ms, code.parse()?)),
                ("beside", [other]) => run.beside.push((*other).into()),
                ("input", [path]) => run.bad_inputs.push((*path).into()),
                ("peers", [told]) => run.wrong_peers = Some((*told).into()),
                ("chunk", [from, length]) => run.chunks.push((from.parse()?, length.parse()?)),
                _ => bail!("{line:?} is no line of a payload"),
            }
        }
        Ok(ledger)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(directory: &Path, tag: &str, arguments: &[&str]) -> std::process::Command {
        let script = directory.join("payload.sh");
        std::fs::write(&script, SCRIPT).unwrap();
        let mut command = std::process::Command::new("sh");
        command
            .arg(script)
            .arg(directory.join("ledger"))
            .args(arguments);
        command.env("COSPAN_TAG", tag).current_dir(directory);
        command
    }

    #[test]
    fn a_payload_tells_its_start_its_end_and_a_wrong_input() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("in"), "other\n").unwrap();
        let arguments = ["0", "3", "polite", "out", "10", "in", "mesh"];
        let status = payload(directory.path(), "ca-1-0-1", &arguments)
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(3));
        let ledger = PayloadLedger::read(&directory.path().join("ledger")).unwrap();
        let run = &ledger.runs[0];
        assert_eq!(run.tag, "ca-1-0-1");
        assert_eq!(run.end.map(|(_, code)| code), Some(3));
        assert_eq!(run.bad_inputs, ["in"]);
        let out = std::fs::read_to_string(directory.path().join("out")).unwrap();
        assert!(out.starts_with("ca-1-0-1\n") && out.len() == 19, "{out:?}");
    }

    #[test]
    fn a_payload_tells_its_chunk_and_whether_it_has_just_that() {
        let directory = tempfile::tempdir().unwrap();
        let all = chunked_file();
        let input = directory.path().join("in");
        let told = |tag: &str, bytes: &[u8]| {
            std::fs::write(&input, bytes).unwrap();
            let arguments = ["0", "0", "polite", "-", "0", "in", CHUNK];
            let mut command = payload(directory.path(), tag, &arguments);
            let chunks = format!("0 5 {} other\n1003 10 {} in", all.len(), all.len());
            command.env("COSPAN_CHUNKS", chunks).status().unwrap();
            let ledger = PayloadLedger::read(&directory.path().join("ledger")).unwrap();
            let run = ledger.runs.into_iter().find(|run| run.tag == tag).unwrap();
            assert_eq!(run.chunks, [(1_003, 10)]);
            run.bad_inputs.is_empty()
        };
        assert!(told("ca-1-0-1", &all[1_003..1_013]));
        assert!(!told("ca-1-0-2", &all[1_004..1_014]), "another chunk");
        assert!(!told("ca-1-0-3", &all[1_003..1_012]), "less");
        assert!(!told("ca-1-0-4", &all[1_003..1_014]), "more");
    }

    #[test]
    fn an_attempt_sees_an_earlier_one_that_lives_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let long = ["60", "0", "polite", "-", "0"];
        let mut first = payload(directory.path(), "ca-1-0-1", &long)
            .spawn()
            .unwrap();
        let mut other = payload(directory.path(), "ca-1-1-1", &long)
            .spawn()
            .unwrap();
        let ledger = directory.path().join("ledger");
        let started = std::time::Instant::now();
        while PayloadLedger::read(&ledger).map_or(0, |ledger| ledger.runs.len()) < 2 {
            assert!(started.elapsed().as_secs() < 60);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let short = ["0", "0", "polite", "-", "0"];
        payload(directory.path(), "ca-1-0-2", &short)
            .status()
            .unwrap();
        for child in [&mut first, &mut other] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        payload(directory.path(), "ca-1-0-3", &short)
            .status()
            .unwrap();
        let ledger = PayloadLedger::read(&ledger).unwrap();
        let beside = |tag: &str| {
            ledger
                .runs
                .iter()
                .find(|run| run.tag == tag)
                .unwrap()
                .beside
                .clone()
        };
        assert_eq!(beside("ca-1-0-2"), ["ca-1-0-1"]);
        assert!(beside("ca-1-0-3").is_empty());
    }
}
