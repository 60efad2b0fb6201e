//! Pages and pictures in files, and tables on the screen.

use std::path::{Path, PathBuf};

use baton_lab::plot::{Page, Table};
use clap::Args;

use crate::exit::Exit;
use crate::output::{Failure, Output, table};

/// Where pages and pictures go.
#[derive(Args, Debug)]
pub(super) struct ReportFiles {
    /// Write a page with all pictures and tables, which needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write each picture as an SVG file into this folder
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,
}

impl ReportFiles {
    /// Refuses, before anything long is begun, what cannot be written.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if let Some(file) = &self.html {
            check_file(file)?;
        }
        match &self.pictures {
            Some(folder) => check_folder(folder).and_then(|()| try_out(&folder.join("picture"))),
            None => Ok(()),
        }
    }

    pub(super) fn write(&self, page: &Page, output: Output) -> Result<(), Failure> {
        if let Some(file) = &self.html {
            save(file, &page.html())?;
            output.talk(&format!("wrote {}", file.display()));
        }
        if let Some(folder) = &self.pictures {
            for (name, picture) in page.pictures() {
                save(&folder.join(name), &picture)?;
            }
            output.talk(&format!("wrote the pictures into {}", folder.display()));
        }
        Ok(())
    }

    /// What was asked for, as it is written on a command line.
    pub(super) fn command(words: &[(&str, String)]) -> String {
        words.iter().map(|(name, value)| format!(" --{name} {value}")).collect()
    }
}

/// Refuses a file that cannot be written, before anything long is begun.
pub(super) fn check_file(file: &Path) -> Result<(), Failure> {
    if file.is_dir() {
        let hint = "name a file in it";
        return Err(Failure::usage(format!("{} is a folder", file.display()), hint));
    }
    check_folder(file.parent().unwrap_or(Path::new("")))?;
    try_out(file)
}

fn check_folder(folder: &Path) -> Result<(), Failure> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    Err(Failure::usage(
        format!("there is no folder {}", folder.display()),
        format!("make it first: mkdir -p {}", folder.display()),
    ))
}

fn try_out(file: &Path) -> Result<(), Failure> {
    let part = part(file);
    let written = std::fs::write(&part, "").map_err(|error| unwritable(file, &error));
    let _ = std::fs::remove_file(&part);
    written
}

/// In one piece: who is killed, or has a full disk, leaves no half of a page behind.
pub(super) fn save(file: &Path, text: &str) -> Result<(), Failure> {
    let part = part(file);
    std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, file)).map_err(|error| {
        let _ = std::fs::remove_file(&part);
        unwritable(file, &error)
    })
}

/// Where a file is written before it takes its name.
fn part(file: &Path) -> PathBuf {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    PathBuf::from(part)
}

fn unwritable(file: &Path, error: &std::io::Error) -> Failure {
    let hint = "name a file in a folder that you may write to";
    Failure::new(Exit::Error, "system", format!("cannot write {}: {error}", file.display()), hint)
}

/// A table on the screen.
pub(super) fn shown(printed: &Table) -> String {
    let head: Vec<String> = printed.head.iter().map(|name| name.to_uppercase()).collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    table(&head, &printed.rows)
}
