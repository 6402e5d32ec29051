use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{Gid, Uid, XattrFlags};
use rustix::io::Errno;

/// The largest value of an extended attribute (xattr(7)).
const VALUE: usize = 64 << 10;

/// Gives `file` the owner, mode, access control list and user attributes of
/// the file at `path`. The inner error says what could not be kept.
pub(crate) fn copy(
    path: &Path,
    before: &Metadata,
    file: &File,
) -> io::Result<Result<(), &'static str>> {
    let now = file.metadata()?;
    let differs = |old: u32, new: u32| (old != new).then_some(old);
    let owner = differs(before.uid(), now.uid()).map(Uid::from_raw);
    let group = differs(before.gid(), now.gid()).map(Gid::from_raw);
    if (owner.is_some() || group.is_some())
        && rustix::fs::fchown(file.as_fd(), owner, group).is_err()
    {
        return Ok(Err("its owner or group could not be kept otherwise"));
    }
    if copy_extended(path, file).is_err() {
        return Ok(Err("its extended attributes could not be kept otherwise"));
    }
    // After the owner, whose change clears the bits for set-user-ID.
    file.set_permissions(std::fs::Permissions::from_mode(before.mode() & 0o7777))?;
    Ok(Ok(()))
}

fn copy_extended(path: &Path, file: &File) -> Result<(), Errno> {
    let mut names = vec![0; VALUE];
    let length = match rustix::fs::llistxattr(path, &mut names) {
        Ok(length) => length,
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    let names = names.get(..length).unwrap_or_default();
    let mut value = vec![0; VALUE];
    for name in names.split(|byte| *byte == 0) {
        if !name.starts_with(b"user.") && name != b"system.posix_acl_access" {
            continue;
        }
        let length = rustix::fs::lgetxattr(path, name, &mut value)?;
        let value = value.get(..length).unwrap_or_default();
        rustix::fs::fsetxattr(file, name, value, XattrFlags::empty())?;
    }
    Ok(())
}
