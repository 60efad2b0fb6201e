//! What goes wrong with files, folders, disks and processes, and what the file store makes of it.

mod bad_files;
mod deletion;
mod disks;
mod late_writer;
mod power_cuts;
mod racing;
mod readers;
mod two_machines;
mod watching;
mod wiping;
