use std::path::Path;

use super::*;
use cospan_api::v1::quantity::{Length, Size};

fn parse(text: &str) -> Result<LoadedConfig, ConfigError> {
    Config::parse(Path::new("cospan.toml"), text)
}

/// Compares what a person sees with a file beside the tests.
fn compare_with_golden(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/config/golden")
        .join(name);
    if std::env::var_os("COSPAN_REGENERATE").is_some() {
        std::fs::write(&file, text).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(
        text,
        expected,
        "run with COSPAN_REGENERATE=1 to accept {}",
        file.display()
    );
}

fn problems_of(text: &str) -> String {
    match parse(text) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("no problem found in:\n{text}"),
    }
}

#[test]
fn a_log_of_nothing_is_asked_for_by_its_name() {
    let told = problems_of("[log]\nfilter = \"\"");
    assert!(told.contains("filter in [log] is empty"), "{told}");
    assert!(parse("[log]\nfilter = \"off\"").is_ok());
}

#[test]
fn an_empty_file_means_all_defaults_without_any_warning() {
    let loaded = parse("").unwrap();
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    assert!(loaded.config.site.is_empty());
}

#[test]
fn every_problem_is_told_at_once_with_its_line_and_a_remedy() {
    compare_with_golden(
        "many-problems.txt",
        &problems_of(include_str!("golden/many-problems.toml")),
    );
}

#[test]
fn sites_that_no_link_joins_are_warned_of_unless_that_is_meant() {
    let site = |name: &str, kind: &str| {
        format!("[[site]]\nname = {name:?}\nkind = {kind:?}\nroot = \"/{name}\"\nprocessors = 4\n")
    };
    let warned = |text: &str| parse(text).unwrap().warnings.to_string();
    let apart = site("delft", "slurm") + &site("leiden", "local");
    let warning = warned(&apart);
    assert!(
        warning.contains("no [[link]] between delft and leiden"),
        "{warning}"
    );
    assert!(
        warning.contains("from = \"delft\", to = \"leiden\""),
        "{warning}"
    );
    let link = "[[link]]\nfrom = \"leiden\"\nto = \"delft\"\nbandwidth = \"0bit/s\"\n";
    assert_eq!(warned(&format!("{apart}{link}")), "");
    // Between sites of this machine it is measured.
    assert_eq!(warned(&(site("a", "local") + &site("b", "local"))), "");
    let many: String = (0..4).map(|n| site(&format!("s{n}"), "slurm")).collect();
    assert!(
        warned(&many).contains("s0 and s3, and 3 pairs more"),
        "{}",
        warned(&many)
    );
}

#[test]
fn text_that_is_no_toml_is_told_with_its_line() {
    compare_with_golden(
        "not-toml.txt",
        &problems_of("[server]\nlisten = 127.0.0.1\n[queue\nN_h = 2\n"),
    );
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one() {
    let problems = problems_of("[queue]\nscan_intervall = \"60s\"\n");
    assert!(
        problems.contains("cospan.toml:2: unknown key \"scan_intervall\""),
        "{problems}"
    );
    assert!(
        problems.contains("did you mean \"scan_interval\"?"),
        "{problems}"
    );
}

#[test]
fn a_host_that_could_be_an_option_or_two_words_of_a_command_is_refused() {
    let site = |host: &str| {
        format!(
            "[[site]]\nname = \"delft\"\nkind = \"local\"\nroot = \"/srv/delft\"\n\
             processors = 8\nhost = {host:?}\n"
        )
    };
    for host in ["--flood", "-f", "fs0 fs1", "fs0;id", ""] {
        let problems = problems_of(&site(host));
        assert!(problems.contains("cospan.toml:6: host"), "{problems}");
        assert!(problems.contains("host name"), "{problems}");
    }
    for host in ["fs0.delft.example", "10.141.0.1", "2001:db8::1"] {
        let config = parse(&site(host)).unwrap().config;
        assert_eq!(
            config.site[0].host.as_ref().map(|host| host.as_str()),
            Some(host)
        );
    }
}

#[test]
fn an_option_of_another_kind_is_refused_and_an_unknown_kind_lists_all() {
    let site = |kind: &str| {
        format!(
            "[[site]]\nname = \"delft\"\nkind = {kind:?}\nroot = \"/srv/delft\"\n\
             processors = 8\npartition = \"short\"\n"
        )
    };
    let problems = problems_of(&site("local"));
    assert!(
        problems.contains("cospan.toml:6: partition of site \"delft\""),
        "{problems}"
    );
    assert!(problems.contains("give kind = \"slurm\""), "{problems}");
    let problems = problems_of(&site("slrum"));
    assert!(problems.contains("\"local\" or \"slurm\""), "{problems}");
    let config = parse(&site("slurm")).unwrap().config;
    assert_eq!(config.site[0].partition.as_deref(), Some("short"));
}

#[test]
fn a_site_says_which_way_its_processors_are_got_by_the_older_word_too() {
    let site = |more: &str| {
        let all = "kind = \"slurm\"\nroot = \"/srv/delft\"\nprocessors = 8\n";
        format!("[[site]]\nname = \"delft\"\n{all}{more}\n")
    };
    let has_queue = |more: &str| parse(&site(more)).unwrap().config.site[0].has_queue();
    assert!(has_queue("") && has_queue("acquisition = \"queued\""));
    assert!(!has_queue("queues = false") && !has_queue("acquisition = \"immediate\""));
    let problems = problems_of(&site("acquisition = \"queued\"\nqueues = false"));
    assert!(
        problems.contains("cospan.toml:7: site \"delft\" has acquisition"),
        "{problems}"
    );
    assert!(problems.contains("> drop queues"), "{problems}");
    let problems = problems_of(&site("hold_max = \"30s\""));
    assert!(
        problems.contains("cospan.toml:6: hold_max of site \"delft\""),
        "{problems}"
    );
}

#[test]
fn a_ping_without_a_program_is_refused() {
    for ping in ["[]", "[\"\", \"-c\"]"] {
        let problems = problems_of(&format!("[sites]\nping = {ping}\n"));
        assert!(
            problems.contains("cospan.toml:2: ping in [sites] names no program"),
            "{problems}"
        );
    }
}

/// Vector CF-8.
#[test]
fn an_empty_history_seed_is_refused_by_name() {
    let problems = problems_of("[placement]\nhistory_seed = []\n");
    assert!(
        problems.contains("cospan.toml:2: history_seed"),
        "{problems}"
    );
    assert!(
        problems.contains("close-to-files could place nothing"),
        "{problems}"
    );
    let all = parse("[placement]\nhistory_seed = \"all\"\n")
        .unwrap()
        .config;
    assert_eq!(
        all.placement.history_seed.0,
        cospan_domain::placement::SitePairHistory::All
    );
}

#[test]
fn what_is_odd_but_allowed_is_a_warning() {
    let loaded = parse("[queue]\nn1 = 1\nn2 = 2\n").unwrap();
    let warnings = loaded.warnings.to_string();
    assert!(
        warnings.contains("cospan.toml:3: n2 = 2 is above n1 = 1"),
        "{warnings}"
    );
    assert!(warnings.contains("usually n2 is at most n1"), "{warnings}");
}

#[test]
fn a_rule_for_priorities_that_makes_no_sense_is_refused_by_its_number() {
    let problems = problems_of(
        "[[priority]]\nclass = \"super-hihg\"\n\
         [[priority]]\nhighest = \"none\"\nrunner = \"swep\"\nkey = \"a key\"\n",
    );
    for words in [
        "cospan.toml:2: class in [[priority]] number 1: the text \"super-hihg\" where \"super-high\"",
        "cospan.toml:5: runner in [[priority]] number 2: ",
        "default, parallel, sweep",
        "cospan.toml:6: key in [[priority]] number 2: ",
    ] {
        assert!(problems.contains(words), "{words}: {problems}");
    }
    let problems = problems_of(
        "[[priority]]\nmin_wall_time = \"2h\"\nmax_wall_time = \"1h\"\n\
         class = \"high\"\nhighest = \"low\"\n",
    );
    for words in [
        "cospan.toml:2: min_wall_time = \"2h\" is above max_wall_time = \"1h\" in [[priority]] number 1",
        "> lower it, or raise max_wall_time",
        "cospan.toml:4: class = \"high\" is above highest = \"low\" in [[priority]] number 1",
        "> lower it, or raise highest",
    ] {
        assert!(problems.contains(words), "{words}: {problems}");
    }
}

#[test]
fn a_rule_for_priorities_behind_one_that_takes_all_its_jobs_is_a_warning() {
    let rules = |first: &str| {
        let text = format!(
            "[[priority]]\n{first}\n\n[[priority]]\nkey = \"bob\"\nmax_wall_time = \"1h\"\n"
        );
        parse(&text).unwrap().warnings.to_string()
    };
    let warnings = rules("max_wall_time = \"2h\"");
    let words = "cospan.toml:4: [[priority]] number 2 never counts: number 1 matches every job";
    assert!(warnings.contains(words), "{warnings}");
    assert!(
        warnings.contains("> put it before that one, or drop it"),
        "{warnings}"
    );
    for narrower in [
        "max_wall_time = \"30m\"",
        "key = \"alice\"",
        "runner = \"sweep\"",
    ] {
        assert_eq!(rules(narrower), "", "{narrower}");
    }
}

#[test]
fn listening_beyond_loopback_needs_tls() {
    let problems = problems_of("[server]\nlisten = [\"0.0.0.0:7440\"]\n");
    assert!(problems.contains("there is no TLS"), "{problems}");
    let tls = "tls_certificate = \"/c.pem\"\ntls_key = \"/k.pem\"";
    assert!(parse(&format!("[server]\nlisten = [\"0.0.0.0:7440\"]\n{tls}")).is_ok());
    assert!(problems_of("[server]\nlisten = []\n").contains("names no address"));
}

#[test]
fn the_effective_configuration_reads_back_as_itself() {
    let config = parse(include_str!("golden/complete.toml")).unwrap().config;
    for annotated in [false, true] {
        let shown = print_config(&config, annotated);
        assert_eq!(parse(&shown).unwrap().config, config, "{shown}");
    }
    compare_with_golden("complete.txt", &print_config(&config, false));
}

#[test]
fn the_secret_part_of_a_webhook_is_never_shown() {
    let text = "[notify]\nwebhooks = [\"https://hooks.example.org/T0/s3cret\"]\n";
    let shown = print_config(&parse(text).unwrap().config, true);
    assert!(
        !shown.contains("s3cret") && shown.contains("hooks.example.org"),
        "{shown}"
    );
}

#[test]
fn every_option_has_a_text_a_version_and_a_default_that_is_accepted() {
    for section in describe_sections() {
        assert!(section.doc.ends_with('.'), "{}", section.key);
        for option in section.options {
            assert!(
                option.doc.ends_with('.'),
                "{}.{}: {}",
                section.key,
                option.key,
                option.doc
            );
            assert_eq!(option.since.split('.').count(), 3);
            if let (false, Some(default)) = (section.repeated, &option.default) {
                let text = format!("[{}]\n{} = {default}\n", section.key, option.key);
                assert!(parse(&text).is_ok(), "{text}");
            }
        }
    }
}

#[test]
fn a_number_out_of_its_range_is_refused_with_the_range() {
    let problems = problems_of("[sites]\nexec_limit = 0\npoll_interval = \"2h\"\n");
    assert!(
        problems.contains("cospan.toml:2: exec_limit in [sites] is out of range"),
        "{problems}"
    );
    assert!(problems.contains("from 1 to 256"), "{problems}");
    assert!(problems.contains("from \"100ms\" to \"1h\""), "{problems}");
}

/// A value above or below an end of a range, as it is written.
fn value_out_of_range(end: &str, above: bool) -> Option<String> {
    let step = |end: u64| {
        if above {
            end.checked_add(1)
        } else {
            end.checked_sub(1)
        }
    };
    if let Ok(number) = end.parse::<u64>() {
        return step(number).map(|number| number.to_string());
    }
    if let Ok(ratio) = end.parse::<f64>() {
        // A negative one is no ratio at all.
        return above.then(|| (ratio + 0.001).to_string());
    }
    let text = end.trim_matches('"');
    if let Ok(Length(length)) = text.parse() {
        return step(length.0).map(|ms| format!("\"{ms}ms\""));
    }
    if let Some(rate) = text
        .strip_suffix("bit/s")
        .and_then(|number| number.parse().ok())
    {
        return step(rate).map(|rate| format!("\"{rate}bit/s\""));
    }
    let Size(size) = text.parse().unwrap();
    step(size.0).map(|bytes| format!("\"{bytes}B\""))
}

#[test]
fn options_beyond_their_range_are_refused_with_their_line_and_the_range() {
    let mut tried = 0;
    for section in describe_sections() {
        let (heading, title) = if section.repeated {
            (
                format!("[[{}]]", section.key),
                format!("[[{}]] number 1", section.key),
            )
        } else {
            (format!("[{}]", section.key), format!("[{}]", section.key))
        };
        for option in section.options {
            let Some((low, high)) = option.range else {
                continue;
            };
            let ends = [(&low, false), (&high, true)];
            for beyond in ends
                .iter()
                .filter_map(|(end, above)| value_out_of_range(end, *above))
            {
                let key = option.key;
                let problems = problems_of(&format!("{heading}\n{key} = {beyond}\n"));
                let place = format!("cospan.toml:2: {key} in {title}");
                let range = format!("give a value from {low} to {high}");
                assert!(
                    problems.contains(&place) && problems.contains(&range),
                    "{problems}"
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 50, "only {tried} were tried");
}

#[test]
fn l_min_above_l_and_fewer_high_turns_than_low_ones_are_refused_by_name() {
    let problems = problems_of("[claim]\nL = 0.5\nL_min = 0.75\n");
    assert!(
        problems.contains("cospan.toml:3: L_min = 0.75 is above L = 0.5"),
        "{problems}"
    );
    assert!(
        problems.contains("> L falls from L to L_min: lower L_min, or raise L"),
        "{problems}"
    );
    let problems = problems_of("[queue]\nN_l = 2\n");
    assert!(
        problems.contains("cospan.toml:2: N_h = 1 is below N_l = 2"),
        "{problems}"
    );
    assert!(
        problems.contains("> the high queues need at least as many turns"),
        "{problems}"
    );
}

#[test]
fn a_number_that_no_type_holds_is_refused_with_the_usual_range() {
    let at = |number: &str| problems_of(&format!("[sites]\nexec_limit = {number}\n"));
    for wrong in ["-5", "0", "257", "99999999999"] {
        let problems = at(wrong);
        assert!(
            problems.contains("cospan.toml:2: exec_limit in [sites] is out of range"),
            "{problems}"
        );
        assert!(
            problems.contains("give a value from 1 to 256"),
            "{problems}"
        );
        assert!(!problems.contains("4294967295"), "{problems}");
    }
    assert!(at("\"many\"").contains("where a whole number is expected"));
}

#[test]
fn a_list_without_its_brackets_is_told_how_to_write_them() {
    let problems = problems_of("[server]\nlisten = \"127.0.0.1:7441\"\n");
    assert!(
        problems.contains("write it as [\"127.0.0.1:7441\"]"),
        "{problems}"
    );
    assert!(
        problems_of("[server]\nlisten = 7441\n").contains("a list in brackets, each an address")
    );
}

#[test]
fn memory_and_disk_of_a_site_are_counted_in_whole_megabytes() {
    let config = parse(include_str!("golden/complete.toml")).unwrap().config;
    let total = config.site[0].total_resources();
    assert_eq!(total.processors, 8);
    assert_eq!(total.others.get("memory_mb"), Some(&16_000));
    assert_eq!(total.others.get("licenses"), Some(&3));
    assert_eq!(total.others.get("gpus"), None);
}

#[test]
fn bytes_that_are_no_text_are_told_with_their_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cospan.toml");
    std::fs::write(&file, b"[server]\n# caf\xe9\n").unwrap();
    let error = Config::load(&file).unwrap_err().to_string();
    assert!(
        error.contains("cospan.toml:2: the text is not UTF-8"),
        "{error}"
    );
}

#[test]
fn the_reference_in_the_book_is_that_of_this_code() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/reference/configuration.md");
    if std::env::var_os("COSPAN_REGENERATE").is_some() {
        std::fs::write(&file, print_reference()).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == print_reference(),
        "{0} is stale; write it anew with: cargo run -- config reference > {0}",
        "docs/src/reference/configuration.md"
    );
}
