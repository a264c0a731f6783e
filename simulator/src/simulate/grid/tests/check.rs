//! What a grid file may not say.

use proptest::prelude::*;

use super::*;

/// Has one problem, on this line, with these words.
fn assert_refused(text: &str, line: usize, words: &[&str]) {
    let problems = refused(text);
    assert_eq!(problems.lines().count(), 1, "{problems}");
    assert!(
        problems.starts_with(&format!("test.toml:{line}: ")),
        "{problems}"
    );
    for word in words {
        assert!(problems.contains(word), "no {word:?} in: {problems}");
    }
}

#[test]
fn an_unknown_key_is_refused_with_its_line_and_the_nearest_known_one() {
    assert_refused(
        "sitee = 1\n[[site]]\nname = \"a\"\nnodes = 1",
        1,
        &["did you mean \"site\"?"],
    );
    assert_refused(
        &one_site("shceduler = \"easy\""),
        5,
        &["did you mean \"scheduler\"?"],
    );
    assert_refused(
        &one_site("colour = 1"),
        5,
        &["unknown key \"colour\"", "known here: name,"],
    );
    let load = "[site.local_load]\nmodel = \"lublin\"\nutilisation = 0.3\nutilization = 0.3";
    assert_refused(
        &one_site(load),
        7,
        &["[site.local_load] of site delft", "\"utilization\"?"],
    );
    assert_refused(
        &one_site("[network]\ndefault_latenci = \"1ms\""),
        6,
        &["\"default_latency\"?"],
    );
}

#[test]
fn every_problem_is_told_at_once_in_the_order_of_lines() {
    let text = "[network]\ndefault_latency = 5\n[[site]]\nname = \"1st\"\nnodes = 0\n[[site]]\n\
                name = \"b\"\n[[link]]\nfrom = \"c\"\nto = \"b\"\nbandwidth = \"fast\"";
    let problems = refused(text);
    let lines: Vec<String> = problems
        .lines()
        .filter_map(|problem: &str| problem.split(':').nth(1).map(str::to_owned))
        .collect();
    assert_eq!(lines, ["2", "4", "5", "6", "9", "11"], "{problems}");
}

#[test]
fn numbers_out_of_range_are_refused_with_the_range() {
    let nodes = |nodes: &str| format!("[[site]]\nname = \"a\"\nnodes = {nodes}");
    for wrong in [
        "0",
        "1_000_001",
        "-1",
        "99999999999999999999",
        "1.5",
        "\"8\"",
    ] {
        assert_refused(&nodes(wrong), 3, &["nodes", "from 1 to 1000000"]);
    }
    assert_refused(
        &one_site("").replace("= 2", "= 1025"),
        4,
        &["1025", "from 1 to 1024"],
    );
    for wrong in ["0", "-0.5", "10.5", "nan", "inf"] {
        let load = format!("[site.local_load]\nmodel = \"lublin\"\nutilization = {wrong}");
        assert_refused(&one_site(&load), 7, &["above 0, at most 10"]);
    }
}

#[test]
fn local_jobs_must_fit_their_site() {
    let load = |sizes: &str| {
        let model = "model = \"poisson\"\nutilization = 0.3\nmean_run_time = \"1h\"";
        one_site(&format!("[site.local_load]\n{model}\nsizes = {sizes}"))
    };
    parsed(&load("[1, 32]"));
    for wrong in ["[1, 33]", "[0]"] {
        assert_refused(&load(wrong), 9, &["from 1 to 32"]);
    }
    assert_refused(&load("[]"), 9, &["it is empty"]);
    assert_refused(&load("4"), 9, &["it is no list"]);
}

#[test]
fn names_of_sites_are_valid_and_unique() {
    assert_refused("[[site]]\nname = \"a b\"\nnodes = 1", 2, &["position 1"]);
    let twice = one_site("[[site]]\nname = \"delft\"\nnodes = 1");
    assert_refused(&twice, 6, &["given twice, first on line 2"]);
}

#[test]
fn a_grid_without_sites_or_with_too_many_is_refused() {
    assert_refused("", 1, &["1 to 1000 sites"]);
    assert_refused("site = []", 1, &["1 to 1000 sites"]);
    let many: String = (0..1001)
        .map(|n| format!("[[site]]\nname = \"s{n}\"\nnodes = 1\n"))
        .collect();
    assert_refused(&many, 1, &["1001 sites"]);
}

#[test]
fn a_link_joins_two_known_sites_once() {
    let links = |links: &str| one_site(&format!("[[site]]\nname = \"leiden\"\nnodes = 1\n{links}"));
    let link = |from: &str, to: &str| {
        format!("[[link]]\nfrom = \"{from}\"\nto = \"{to}\"\nbandwidth = \"1 Gbit/s\"\n")
    };
    assert_refused(
        &links(&link("delft", "leidn")),
        10,
        &["did you mean \"leiden\"?"],
    );
    assert_refused(&links(&link("delft", "delft")), 10, &["to itself"]);
    let there_and_back = link("delft", "leiden") + &link("leiden", "delft");
    let twice = refused(&links(&there_and_back));
    assert!(
        twice.contains("test.toml:12: the link from leiden to delft is given twice"),
        "{twice}"
    );
    parsed(
        &links(&there_and_back.replace("\"\n[[", "\"\nboth_ways = false\n[["))
            .replace("to = \"delft\"", "to = \"delft\"\nboth_ways = false"),
    );
}

#[test]
fn a_load_or_failures_come_from_one_source() {
    let both = "[site.local_load]\nlog = \"a\"\nmodel = \"lublin\"\nutilization = 0.1";
    assert_refused(&one_site(both), 5, &["both log and model"]);
    assert_refused(
        &one_site("[site.local_load]"),
        5,
        &["neither log nor model"],
    );
    assert_refused(
        &one_site("[site.failures]\nsystem = 2"),
        5,
        &["neither log nor"],
    );
    let odd = "[site.local_load]\nmodel = \"lublin\"\nutilization = 0.1\nsizes = [1]";
    assert_refused(
        &one_site(odd),
        8,
        &["sizes", "does not go with model = \"lublin\""],
    );
    let level = "[site.local_load]\nmodel = \"level\"\nleast = 0.4\nmean_run_time = \"1m\"";
    assert_refused(
        &one_site(&format!("{level}\nmost = 0.3")),
        9,
        &["most", "at least least"],
    );
    let odd = format!("{level}\nmost = 0.5\nutilization = 0.4");
    assert_refused(
        &one_site(&odd),
        10,
        &["utilization", "does not go with model = \"level\""],
    );
    let odd = "[site.failures]\nmean_between_failures = \"9d\"\nmean_repair = \"1h\"\nsystem = 2";
    assert_refused(
        &one_site(odd),
        8,
        &["does not go with mean_between_failures"],
    );
    let zero = "[site.failures]\nmean_between_failures = \"0s\"\nmean_repair = \"1h\"";
    assert_refused(&one_site(zero), 6, &["it is zero"]);
}

#[test]
fn a_word_that_is_none_of_the_choices_is_refused_with_all_of_them() {
    assert_refused(
        &one_site("scheduler = \"sjf\""),
        5,
        &["fcfs, easy, conservative"],
    );
    let load = "[site.local_load]\nmodel = \"feitelson\"\nutilization = 0.1";
    assert_refused(&one_site(load), 6, &["lublin, poisson"]);
}

#[test]
fn replicas_of_a_file_have_one_size() {
    let files = "[site.files]\ndata = \"4GB\"\n";
    let other = "[[site]]\nname = \"leiden\"\nnodes = 1\n[site.files]\ndata = \"5GB\"";
    assert_refused(
        &one_site(&format!("{files}{other}")),
        7,
        &["5000000000", "on line 1"],
    );
    assert_refused(
        &one_site("[site.files]\n\"/data\" = \"4GB\""),
        6,
        &["logical file name"],
    );
    assert_refused(
        &one_site("[site.files]\ndata = \"4\""),
        6,
        &["its unit is missing"],
    );
}

#[test]
fn a_slip_of_the_notation_is_told_with_its_line() {
    let problems = refused("[[site]]\nname = delft\n");
    assert!(problems.starts_with("test.toml:2: "), "{problems}");
    assert_refused("site = 4", 1, &["a whole number", "[[site]]"]);
    assert_refused(
        &one_site("local_load = 4"),
        5,
        &["a whole number", "as a table"],
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_fail_other_than_by_an_error(
        text in "(\\[\\[?(site|link|network|site\\.files)\\]?\\]|[a-z_]{1,6} = [0-9\"a-z.\\[\\]{},]{0,8}|\n|é){0,20}",
    ) {
        let _ = Grid::parse(Path::new("test.toml"), &text).map_err(|problems| problems.to_string());
    }

    #[test]
    fn half_a_file_makes_the_reader_fail_only_by_an_error(cut in 0_usize..2000) {
        let text = include_str!("../../../../../examples/grid.toml");
        let half = text.get(..cut.min(text.len())).unwrap_or_default();
        let _ = Grid::parse(Path::new("test.toml"), half).map_err(|problems| problems.to_string());
    }
}
