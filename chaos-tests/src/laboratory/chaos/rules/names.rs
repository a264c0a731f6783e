//! Names, paths, numbers, tags and digests: which texts they are made of, that they are read
//! back as they were written, and that a refusal says what is wrong with which text.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use anyhow::{Result, ensure};
use cospan_domain::ids::{
    Attempt, ComponentIndex, ComponentName, Digest, HostName, IdempotencyKey, InstanceId,
    InvalidId, JobId, KeyName, LogicalName, LrmId, PolicyName, RelPath, SiteName, Tag, TargetName,
};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// Letters and digits in which instances are numbered.
const INSTANCE: &str = "abcdefghijklmnopqrstuvwxyz234567";
/// Bytes of the longest path.
const PATH_MAX: usize = 1_024;
/// Characters of a refused text that are repeated.
const REPEATED: usize = 80;

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let checks = [
        names(chance),
        paths(chance),
        numbers(chance),
        instances(chance),
        tags(chance),
        digests(chance),
    ];
    checks.into_iter().filter_map(Result::err).map(|problem| format!("{problem:#}")).collect()
}

/// What is valid is read back and shown as it is, also in a column; what is not is refused
/// with the text and what it should have been.
fn shown<T>(text: &str, valid: bool, kind: &str) -> Result<()>
where
    T: FromStr<Err = InvalidId> + Display + Debug,
{
    match text.parse::<T>() {
        Ok(name) => {
            let columns = format!("{name:>70}");
            let right = name.to_string() == text
                && format!("{name:?}") == format!("{text:?}")
                && columns.trim_start() == text.trim_start()
                && columns.chars().count() == text.chars().count().max(70);
            ensure!(valid && right, "{text:?} is a {kind}: {name:?}, shown as {name}");
        }
        Err(problem) => {
            let begun: String = text.chars().take(REPEATED).collect();
            let told = problem.to_string();
            let right = problem.kind == kind && problem.text == begun && told.contains(kind);
            ensure!(!valid && right && told.len() > kind.len() + 9, "{text:?}: {problem:?}");
        }
    }
    Ok(())
}

fn text(chance: &mut StdRng, most: usize) -> String {
    let letters = ['a', 'Z', '7', '-', '_', '.', ':', '%', '@', '/', '\\', ' ', '\n', '\u{e9}'];
    let plain = chance.random_range(3..=letters.len());
    let length = [0, 1, 2, 5, most - 1, most, most + 1][chance.random_range(0..7)];
    if length > 9 {
        return "a".repeat(length);
    }
    (0..length).map(|_| letters[chance.random_range(0..plain)]).collect()
}

/// Of which characters each kind of name is made, and how long it may be.
fn names(chance: &mut StdRng) -> Result<()> {
    let many = text(chance, 63);
    let long = text(chance, 255);
    let host = text(chance, 253);
    let check = |text: &str, most: usize, first: &str, next: &str| {
        let of = |c: char, more: &str| c.is_ascii_alphanumeric() || more.contains(c);
        let mut letters = text.chars();
        letters.next().is_some_and(|c| of(c, first))
            && letters.all(|c| of(c, next))
            && text.len() <= most
    };
    let no_digit = !many.starts_with(|c: char| c.is_ascii_digit());
    let lower = |c: char| c.is_ascii_lowercase() || c == '-';
    let plain = |c: char| !c.is_control();
    let printed = long.len() <= 255 && !long.is_empty();
    let logical = printed && !long.contains('\\') && !long.starts_with(['/', '-']);
    shown::<SiteName>(&many, no_digit && check(&many, 63, "", "-_."), "site name")?;
    shown::<ComponentName>(&many, check(&many, 63, "", "-_."), "component name")?;
    shown::<TargetName>(&many, check(&many, 63, "", "-_."), "notification target")?;
    shown::<KeyName>(&many, check(&many, 63, "", "-_.@"), "key name")?;
    shown::<HostName>(&host, check(&host, 253, "_.:%", "-_.:%"), "host name")?;
    let policy = (1..=63).contains(&many.len()) && many.chars().all(lower);
    shown::<PolicyName>(&many, policy, "policy name")?;
    shown::<LogicalName>(&long, logical && long.chars().all(plain), "logical file name")?;
    let id = printed && long.chars().all(|c| plain(c) && c != ' ');
    shown::<LrmId>(&long, id, "resource manager id")?;
    let key = printed && long.chars().all(|c| ('!'..='~').contains(&c));
    shown::<IdempotencyKey>(&long, key, "idempotency key")
}

/// A path stays below its root, and is not too long.
fn paths(chance: &mut StdRng) -> Result<()> {
    let parts = ["a", "b..c", "x y", "...", ".a", "a", ".", "..", "", "n\0l"];
    let sound = chance.random_bool(0.6);
    let most = if sound { 6 } else { parts.len() };
    let drawn = (0..chance.random_range(1..4)).map(|_| parts[chance.random_range(0..most)]);
    let mut text = drawn.collect::<Vec<_>>().join("/");
    if chance.random_bool(0.2) {
        let length = PATH_MAX - text.len() + chance.random_range(0..3) - 1;
        text.extend(std::iter::repeat_n('a', length));
    }
    let odd = |part: &str| matches!(part, "" | "." | "..");
    let problems = [
        ("empty", text.is_empty()),
        ("1024", text.len() > PATH_MAX),
        ("absolute", text.starts_with('/')),
        ("NUL", text.contains('\0')),
        ("part", text.split('/').any(odd) && !text.starts_with('/') && !text.is_empty()),
    ];
    let valid = problems.iter().all(|(_, so)| !so);
    shown::<RelPath>(&text, valid, "path")?;
    match RelPath::new(&text) {
        Ok(path) => ensure!(path.as_str() == text, "{text:?} is {:?}", path.as_str()),
        Err(problem) => {
            let said = |(word, so): &(&str, bool)| *so && problem.problem.contains(word);
            ensure!(problems.iter().any(said), "{text:?}: {problem}");
        }
    }
    Ok(())
}

fn numbers(chance: &mut StdRng) -> Result<()> {
    let number = chance.random::<u64>() >> chance.random_range(0..64);
    let text = number.to_string();
    ensure!(text.parse() == Ok(JobId(number)) && JobId(number).to_string() == text, "{text}");
    let small = ComponentIndex(u32::try_from(number).unwrap_or(9));
    ensure!(small.to_string().parse() == Ok(small), "{small:?} is shown as {small}");
    for odd in ["", "x", "-1", "1.5", "99999999999999999999"] {
        ensure!(odd.parse::<JobId>().is_err(), "{odd:?} is the number of a job");
    }
    Ok(())
}

/// Five bits a character, and nothing else counts; in the order of their texts.
fn instances(chance: &mut StdRng) -> Result<()> {
    let (one, other) = (chance.random::<u64>(), chance.random::<u64>());
    let other =
        if chance.random_bool(0.3) { one ^ (1 << chance.random_range(0..64)) } else { other };
    let [first, second] = [one, other].map(InstanceId::from_random);
    for (bits, instance) in [(one, first), (other, second)] {
        let text = instance.to_string();
        let places = text.chars().filter_map(|c| INSTANCE.find(c));
        let read = places.rev().fold(0, |read, place| read * 32 + place as u64);
        let right = text.len() == 8 && read == bits % (1 << 40) && instance.as_str() == text;
        ensure!(right && text.parse() == Ok(instance), "{bits:#x} is the instance {text}");
    }
    let texts = first.to_string().cmp(&second.to_string());
    let right = first.cmp(&second) == texts && first.partial_cmp(&second) == Some(texts);
    ensure!(right && (first < second) == texts.is_lt(), "{first} comes before or after {second}");
    let mut odd: Vec<char> = first.to_string().chars().collect();
    odd[chance.random_range(0..8)] = ['0', '1', '8', 'A', '-', ' '][chance.random_range(0..6)];
    let odd: String = odd.into_iter().collect();
    for odd in [&odd, &format!("{first}a"), &first.as_str()[1..]] {
        ensure!(odd.parse::<InstanceId>().is_err(), "{odd:?} is an instance");
    }
    Ok(())
}

/// A tag is read back as it was written, and anything odd about it makes it nobody's.
fn tags(chance: &mut StdRng) -> Result<()> {
    let instance = InstanceId::from_random(chance.random());
    let job = chance.random::<u64>() >> chance.random_range(0..64);
    let (component, attempt) = (chance.random_range(0..2_000), chance.random::<u32>());
    let tag = Tag {
        instance,
        job: JobId(job),
        component: ComponentIndex(component),
        attempt: Attempt(attempt),
    };
    let text = format!("c{instance}-{job}-{component}-{attempt}");
    ensure!(tag.to_string() == text && text.parse() == Ok(tag), "{tag:?} is shown as {tag}");
    ensure!(text.len() <= 63, "{text} is too long for a resource manager");
    let odd = [
        format!("x{}", &text[1..]),
        text[1..].to_owned(),
        format!("c{instance}-0{job}-{component}-{attempt}"),
        format!("c{instance}-{job}-{component}-+{attempt}"),
        format!("c{instance}-{job}-{component}"),
        format!("{text}-"),
        format!("{text}-{attempt}"),
        format!("{text} "),
        text.to_uppercase(),
    ];
    let odd = odd.choose(chance).cloned().unwrap_or_default();
    match odd.parse::<Tag>() {
        Ok(tag) => anyhow::bail!("{odd:?} is the tag {tag:?}"),
        Err(problem) => ensure!(problem.to_string().contains(&odd), "{odd:?}: {problem}"),
    }
    Ok(())
}

/// Two digits a byte, the higher half first.
fn digests(chance: &mut StdRng) -> Result<()> {
    let bytes: [u8; 32] = std::array::from_fn(|_| chance.random());
    let digit = |half: u8| char::from(b"0123456789abcdef"[half as usize]);
    let text: String = bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect();
    let digest = Digest(bytes);
    let right = digest.to_string() == text && format!("{digest:?}") == text;
    ensure!(right && text.parse() == Ok(digest), "{bytes:?} is shown as {digest} and {digest:?}");
    let at = chance.random_range(0..64);
    let odd = [
        format!("{}{}{}", &text[..at], ['g', ' ', '-'][at % 3], &text[at + 1..]),
        text[1..].to_owned(),
        format!("{text}0"),
        format!("{text}00"),
        text.repeat(2),
        String::new(),
    ];
    for odd in odd {
        let read = odd.parse::<Digest>();
        let told = read.as_ref().err().is_some_and(|problem| problem.kind == "digest");
        ensure!(told, "{odd:?} is the digest {read:?}");
    }
    Ok(())
}
