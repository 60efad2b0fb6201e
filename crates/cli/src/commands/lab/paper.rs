//! Pages and pictures in files, and tables on the screen.

use std::path::{Path, PathBuf};

use baton_lab::plot::{Page, Table};
use clap::Args;

use crate::output::{Failure, Output, table};

/// Where pages and pictures go.
#[derive(Args, Debug)]
pub(super) struct Paper {
    /// Write a page with all pictures and tables, which needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write each picture as an SVG file into this folder
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,
}

impl Paper {
    /// Refuses, before anything long is begun, what cannot be written.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if let Some(file) = &self.html
            && file.is_dir()
        {
            return Err(Failure::usage(
                format!("{} is a folder", file.display()),
                "name a file: --html report.html",
            ));
        }
        for folder in
            [self.html.as_deref().and_then(Path::parent), self.pictures.as_deref()].into_iter().flatten()
        {
            if !folder.as_os_str().is_empty() && !folder.is_dir() {
                return Err(Failure::usage(
                    format!("there is no folder {}", folder.display()),
                    "make it first: mkdir -p",
                ));
            }
        }
        Ok(())
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

/// In one piece: who is killed, or has a full disk, leaves no half of a page behind.
pub(super) fn save(file: &Path, text: &str) -> Result<(), Failure> {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, file)).map_err(|error| {
        let _ = std::fs::remove_file(&part);
        Failure::usage(format!("cannot write {}: {error}", file.display()), "name another file")
    })
}

/// A table on the screen.
pub(super) fn shown(printed: &Table) -> String {
    let head: Vec<String> = printed.head.iter().map(|name| name.to_uppercase()).collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    table(&head, &printed.rows)
}
