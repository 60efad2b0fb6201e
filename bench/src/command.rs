//! The command itself.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::calibrate;
use crate::figures::{Figure, Five, percentile, short};

/// `baton status ELECTION` from start to answer.
pub(crate) fn status(baton: &Path, start: Duration) -> std::io::Result<Figure> {
    let folder = calibrate::scratch()?;
    let run = |arguments: &[&str]| {
        let mut command = Command::new(baton);
        command.args(arguments).arg("--store").arg(format!("file:{}", folder.path().join("s").display()));
        command
            .env("BATON_STATE_DIR", folder.path().join("state"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status()
    };
    assert!(run(&["acquire", "bench", "--as", "agent-a", "--ttl", "10m"])?.success());
    let mut slowest = Duration::ZERO;
    let five = Five::of(|| {
        let mut values = Vec::new();
        for _ in 0..100 {
            let begun = Instant::now();
            assert!(run(&["status", "bench"])?.success());
            values.push(begun.elapsed());
        }
        slowest = slowest.max(percentile(&mut values, 0.99));
        Ok(percentile(&mut values, 0.5))
    })?;
    let ratio = five.median().as_secs_f64() / start.as_secs_f64();
    let beside = format!("{ratio:.1} × /bin/true; worst p99 {}", short(slowest));
    let what = "baton status: start to answer, p50";
    Ok(Figure::at_most(what, five.median(), Duration::from_millis(10), beside))
}
