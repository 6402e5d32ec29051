use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use crate::error::Error;
use crate::name::Name;

/// Old content is held in memory while the new one is written.
const LARGEST: u64 = 64 << 20;

/// Writes into the file itself, where no other file may take its place.
///
/// Room for the new content is reserved before a byte is changed
/// (fallocate(2)), and should writing fail all the same, the old content is
/// written back.
pub(crate) fn write(name: &Name, path: &Path, content: &[u8]) -> Result<(), Error> {
    let untouched = |source: io::Error| Error::NotWritten {
        name: name.clone(),
        existed: true,
        source,
    };
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY).bits();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags.cast_signed())
        .open(path)
        .map_err(untouched)?;
    let size = file.metadata().map_err(untouched)?.len();
    if size > LARGEST {
        return Err(Error::NotChanged {
            name: name.clone(),
            problem: format!(
                "it could only be written in place, and is larger than {} MiB",
                LARGEST >> 20
            ),
        });
    }
    let mut old = vec![0; usize::try_from(size).unwrap_or_default()];
    file.read_exact_at(&mut old, 0).map_err(untouched)?;
    let wanted = content.len() as u64;
    if wanted > 0 {
        match rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, wanted) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => {}
            Err(errno) => return Err(untouched(errno.into())),
        }
    }
    let Err(failure) = fill(&file, content) else {
        return Ok(());
    };
    match fill(&file, &old) {
        Ok(()) => Err(untouched(failure)),
        Err(source) => Err(Error::Damaged {
            name: name.clone(),
            source,
        }),
    }
}

fn fill(file: &File, content: &[u8]) -> io::Result<()> {
    file.write_all_at(content, 0)?;
    file.set_len(content.len() as u64)?;
    file.sync_all()
}
