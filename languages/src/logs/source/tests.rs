use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use lzma_rust2::{XzOptions, XzWriter};
use proptest::prelude::*;

use super::*;

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn xz(plain: &[u8]) -> Vec<u8> {
    let mut encoder = XzWriter::new(Vec::new(), XzOptions::default()).unwrap();
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// All lines, and whether the stream was cut.
fn read_lines(bytes: &[u8]) -> Result<(Vec<String>, bool), LogError> {
    let reading = WorkloadLogSettings::skipping_bad_lines("a.swf");
    let mut lines = LogLines::new(bytes, &reading)?;
    let mut found = Vec::new();
    loop {
        match lines.next_line(&reading)? {
            NextLogLine::Line { .. } => found.push(lines.line_text().into_owned()),
            end => return Ok((found, end == NextLogLine::Cut)),
        }
    }
}

/// Lines that do not compress well, so that a cut falls between some of them.
fn incompressible_lines(count: u64) -> Vec<String> {
    (0..count)
        .map(|line| (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7).to_string())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_form_of_compression_makes_no_difference(
        text in proptest::collection::vec("[ -~]{0,40}", 0..40),
    ) {
        let plain: String = text.iter().map(|line| format!("{line}\n")).collect();
        let trimmed: Vec<String> = text.iter().map(|line| line.trim().to_owned()).collect();
        for bytes in [plain.as_bytes().to_vec(), gzip(plain.as_bytes()), xz(plain.as_bytes())] {
            prop_assert_eq!(read_lines(&bytes).unwrap(), (trimmed.clone(), false));
        }
    }

    #[test]
    fn no_bytes_make_it_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200), form in 0..3,
    ) {
        let magic = [&[][..], GZIP_MAGIC, XZ_MAGIC][form as usize];
        let _ = read_lines(&[magic, &bytes].concat());
    }
}

#[test]
fn a_stream_cut_anywhere_keeps_whole_lines_only() {
    let all = incompressible_lines(800);
    let plain = all.join("\n");
    for whole in [gzip(plain.as_bytes()), xz(plain.as_bytes())] {
        for length in (8..whole.len()).step_by(331) {
            let (found, is_cut) = read_lines(&whole[..length]).unwrap();
            assert!(is_cut, "{length} of {} bytes", whole.len());
            assert!(all.starts_with(&found), "{length} of {} bytes", whole.len());
        }
    }
}

#[test]
fn a_cut_gzip_stream_still_gives_the_lines_before_the_cut() {
    let whole = gzip(incompressible_lines(20_000).join("\n").as_bytes());
    let (found, is_cut) = read_lines(&whole[..whole.len() / 2]).unwrap();
    assert!(is_cut);
    assert!(found.len() > 5_000, "{}", found.len());
}

#[test]
fn concatenated_gzip_streams_are_read_to_the_end() {
    let both = [gzip(b"one\n"), gzip(b"two\n")].concat();
    assert_eq!(
        read_lines(&both).unwrap(),
        (vec!["one".into(), "two".into()], false)
    );
}

#[test]
fn damaged_data_are_an_error_not_a_cut() {
    for mut bytes in [
        gzip(incompressible_lines(300).join("\n").as_bytes()),
        xz(incompressible_lines(300).join("\n").as_bytes()),
    ] {
        let middle = bytes.len() / 2;
        bytes[middle..middle + 40].fill(0xff);
        let error = read_lines(&bytes).unwrap_err();
        assert!(matches!(error, LogError::Unreadable { .. }), "{error}");
    }
}

#[test]
fn a_line_without_end_is_not_held_in_memory() {
    let error = read_lines(&vec![b'1'; LINE_BYTES_MAX * 3]).unwrap_err();
    assert!(
        matches!(error, LogError::LineTooLong { line: 1, .. }),
        "{error}"
    );
    let longest = vec![b'1'; LINE_BYTES_MAX];
    assert_eq!(read_lines(&longest).unwrap().0.len(), 1);
}

#[test]
fn stepping_back_finds_the_same_line_again() {
    let reading = WorkloadLogSettings::skipping_bad_lines("a.swf");
    let mut lines = LogLines::new(&b"one\ntwo"[..], &reading).unwrap();
    assert_eq!(
        lines.next_line(&reading).unwrap(),
        NextLogLine::Line { ended: true }
    );
    lines.step_back();
    assert_eq!(
        lines.next_line(&reading).unwrap(),
        NextLogLine::Line { ended: true }
    );
    assert_eq!(
        (lines.line_number(), lines.line_text().as_ref()),
        (1, "one")
    );
    assert_eq!(
        lines.next_line(&reading).unwrap(),
        NextLogLine::Line { ended: false }
    );
    assert_eq!(lines.next_line(&reading).unwrap(), NextLogLine::End);
}
