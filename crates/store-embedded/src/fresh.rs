//! A database file that is made aside and put in place whole, readable by its owner only.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_store::{StoreError, boot};
use redb::backends::FileBackend;
use redb::{Builder, Error, WriteTransaction};

use crate::fault::StorePath;
use crate::layout::{self, DatabaseArea, Salt};
use crate::open::CACHE_BYTES;
use crate::shape::{FORMAT, HISTORY, META, META_FORMAT, RECORDS};

/// A file that has no name yet that anybody knows. It is removed unless it is put in place.
pub(crate) struct Fresh {
    path: PathBuf,
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Fresh {
    /// Makes a database in the folder of `place`, filled by `fill`, and sees that it is on the disk.
    pub(crate) fn make(
        place: &StorePath,
        fill: impl FnOnce(&WriteTransaction) -> Result<(), StoreError>,
    ) -> Result<Fresh, StoreError> {
        let name = place.path.file_name().unwrap_or_default().to_string_lossy();
        let unique = format!(".{name}.{}-{}.new", std::process::id(), boot::now().as_nanos());
        let path = place.path.with_file_name(unique);
        let failed = |error: Error| place.unavailable(error);
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path);
        let mut file = file.map_err(|error| place.io(&error))?;
        let fresh = Fresh { path };
        {
            let mut salt = Salt([0; 16]);
            getrandom::fill(&mut salt.0).map_err(|error| place.unavailable(error))?;
            // Written out, so that a frame finds its pages there and its sync has nothing else to write.
            file.write_all(&layout::front(salt)).map_err(|error| place.io(&error))?;
            let backend = FileBackend::new(file).map_err(|error| place.opening(error))?;
            let area = DatabaseArea(Arc::new(backend));
            let database = Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(area);
            let database = database.map_err(|error| place.opening(error))?;
            let transaction = database.begin_write().map_err(|error| failed(error.into()))?;
            lay_out(&transaction).map_err(failed)?;
            fill(&transaction)?;
            transaction.commit().map_err(|error| failed(error.into()))?;
        }
        // What closing it wrote is part of it.
        File::open(&fresh.path).and_then(|file| file.sync_all()).map_err(|error| place.io(&error))?;
        Ok(fresh)
    }

    /// Gives it a name that is free. Says whether it was.
    pub(crate) fn name(self, path: &Path) -> io::Result<bool> {
        match fs::hard_link(&self.path, path) {
            Ok(()) => sync_folder(path).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Gives it a name that another file has. At every instant one of them has it.
    pub(crate) fn replace(self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        sync_folder(path)
    }
}

fn lay_out(transaction: &WriteTransaction) -> Result<(), Error> {
    transaction.open_table(RECORDS)?;
    transaction.open_table(HISTORY)?;
    transaction.open_table(META)?.insert(META_FORMAT, FORMAT)?;
    Ok(())
}

/// Makes the name of a file survive a power cut.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
