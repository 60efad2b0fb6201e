//! `baton lab compare`, `tune` and `scale` as a person calls them.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support::World;

fn json(line: &str) -> serde_json::Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[test]
fn tune_recommends_what_keeps_to_the_wish() {
    let world = World::new();
    let done = world.call(&["lab", "tune", "--rtt", "40ms", "--loss", "1%", "--failover", "10s", "--json"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let advice = json(done.stdout.trim());
    let (lease, group) = (&advice["lease"], &advice["group"]);
    assert!(lease["failover"]["p99_ms"].as_u64().unwrap() <= 10_000, "{advice}");
    assert!(group["failover"]["p99_ms"].as_u64().unwrap() <= 10_000, "{advice}");
    assert!(lease["renewal_ms"].as_u64().unwrap() * 3 <= lease["lease_ms"].as_u64().unwrap(), "{advice}");
    assert!(
        group["timeout_min_ms"].as_u64().unwrap() < group["timeout_max_ms"].as_u64().unwrap(),
        "{advice}"
    );
    assert!(lease["false_alarms"]["per_day"].as_f64().unwrap() > 0.0, "{advice}");
    assert!(advice["curve"].as_array().unwrap().len() > 20, "{advice}");
}

#[test]
fn tune_says_what_is_wrong_with_a_wish_and_what_to_do() {
    let world = World::new();
    let wish = |rtt: &str, loss: &str, failover: &str, more: &[&str]| {
        let mut words = vec!["lab", "tune", "--rtt", rtt, "--loss", loss, "--failover", failover];
        words.extend(more);
        let done = world.call(&words);
        assert_eq!(done.code, 2, "{words:?}: {} {}", done.stdout, done.stderr);
        done.stderr
    };
    assert!(wish("40ms", "100%", "10s", &[]).contains("hint: measure it"));
    assert!(wish("40ms", "1%", "50ms", &[]).contains("hint: ask for at least --failover"));
    assert!(wish("0", "1%", "10s", &[]).contains("hint: measure it with ping"));
    assert!(wish("40ms", "1", "10s", &[]).contains("1%"));
    assert!(wish("40ms", "1%", "10s", &["--pauses", "1s"]).contains("1s/1d"));
    assert!(wish("40ms", "1%", "10s", &["--nodes", "1"]).contains("hint:"));
    assert!(wish("40ms", "1%", "10s", &["--html", "nowhere/a.html"]).contains("there is no folder nowhere"));
}

#[test]
fn scale_writes_a_page_and_a_line_for_each_fleet() {
    let world = World::new();
    let page = world.path().join("scale.html");
    let page = page.to_str().unwrap();
    let done = world.call(&["lab", "scale", "--agents", "100,1000", "--json", "--html", page]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let lines: Vec<serde_json::Value> = done.stdout.lines().map(json).collect();
    let shapes: Vec<&str> = lines.iter().map(|line| line["leadership"].as_str().unwrap()).collect();
    assert_eq!(shapes, ["flat", "regional", "flat", "regional"]);
    assert!(lines.iter().all(|line| line["failover_s"].as_f64().unwrap() >= 20.0), "{lines:?}");
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("baton lab scale --agents 100,1000 ") && html.contains("<svg"));
    assert!(!std::path::Path::new(&format!("{page}.part")).exists());
    let odd = world.call(&["lab", "scale", "--agents", "3"]);
    assert!(odd.code == 2 && odd.stderr.contains("hint:"), "{}", odd.stderr);
}

#[test]
fn compare_shows_bullys_two_leaders_and_rafts_one() {
    let world = World::new();
    let folder = world.path().join("pictures");
    std::fs::create_dir(&folder).unwrap();
    let words = [
        "lab",
        "compare",
        "--algorithm",
        "bully",
        "--algorithm",
        "raft",
        "--scenario",
        "partition",
        "--seeds",
        "5",
    ];
    let done = world.call(&[&words[..], &["--json", "--pictures", folder.to_str().unwrap()]].concat());
    assert_eq!(done.code, 0, "{}", done.stderr);
    let lines: Vec<serde_json::Value> = done.stdout.lines().map(json).collect();
    let two = |algorithm: &str| {
        let cell =
            lines.iter().find(|line| line["kind"] == "cell" && line["algorithm"] == algorithm).unwrap();
        cell["two_leaders_s_per_h"].as_f64().unwrap()
    };
    assert!(two("bully") > 0.0 && two("raft") == 0.0, "{lines:?}");
    assert!(lines.iter().any(|line| line["kind"] == "election" && line["nodes"] == 65), "{lines:?}");
    let picture = std::fs::read_to_string(folder.join("two-leaders.svg")).unwrap();
    assert!(
        picture.starts_with("<svg")
            && picture.contains("<style>")
            && picture.contains("data-series=\"Bully\"")
    );
    for odd in [
        ["--seeds", "0"],
        ["--seeds", "1000000"],
        ["--nodes", "1"],
        ["--nodes", "200"],
        ["--scenario", "flood"],
    ] {
        let done = world.call(&[&["lab", "compare"], &odd[..]].concat());
        assert_eq!(done.code, 2, "{odd:?}: {}", done.stderr);
    }
}
