//! The four words of a policy in the rights of Landlock.

use landlock::{AccessFs, BitFlags, make_bitflags};

use crate::Access;

/// What kind of file a rule is about; directory rights on a file are EINVAL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory { of_devices: bool },
    Device,
    Other,
}

/// All rights that a rule gives, of every ABI. What this kernel does not know
/// is masked when the rule is added.
///
/// REFER is part of writing: without it cargo, npm and git fail to rename
/// between directories. MAKE_CHAR and MAKE_BLOCK are part of nothing: with a
/// node of the disk, root writes past every rule.
pub(crate) fn rights(access: Access, kind: Kind) -> BitFlags<AccessFs> {
    let mut rights = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    if access.executes() {
        rights |= AccessFs::Execute;
    }
    if access.writes() {
        rights |= make_bitflags!(AccessFs::{
            WriteFile | Truncate | RemoveDir | RemoveFile | MakeDir | MakeReg | MakeSock
            | MakeFifo | MakeSym | Refer | ResolveUnix
        });
    }
    match kind {
        // A terminal without ioctl is none: no size, no raw mode.
        Kind::Directory { of_devices: true } if access.writes() => rights |= AccessFs::IoctlDev,
        Kind::Directory { .. } => {}
        Kind::Device => {
            rights &= FILE;
            if access.writes() {
                rights |= AccessFs::IoctlDev;
            }
        }
        Kind::Other => rights &= FILE,
    }
    rights
}

/// Rights that a rule on something else than a directory may have.
const FILE: BitFlags<AccessFs> =
    make_bitflags!(AccessFs::{Execute | ReadFile | WriteFile | Truncate | ResolveUnix});

#[cfg(test)]
mod tests {
    use super::*;
    use landlock::ABI;

    #[test]
    fn device_nodes_are_never_made_and_devices_alone_get_ioctl() {
        let kinds = [
            Kind::Directory { of_devices: false },
            Kind::Directory { of_devices: true },
            Kind::Device,
            Kind::Other,
        ];
        for access in Access::ALL {
            for kind in kinds {
                let rights = rights(access, kind);
                let nodes = make_bitflags!(AccessFs::{MakeChar | MakeBlock});
                assert!(!rights.intersects(nodes), "{access} {kind:?}");
                let on_devices = access.writes()
                    && !matches!(kind, Kind::Other | Kind::Directory { of_devices: false });
                assert_eq!(
                    rights.contains(AccessFs::IoctlDev),
                    on_devices,
                    "{access} {kind:?}"
                );
                if !matches!(kind, Kind::Directory { .. }) {
                    assert!(
                        AccessFs::from_file(ABI::V10).contains(rights),
                        "{access} {kind:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn reading_writes_nothing() {
        for access in [Access::Ro, Access::Rox] {
            let rights = rights(access, Kind::Directory { of_devices: true });
            assert!(!rights.intersects(AccessFs::from_write(ABI::V10)));
        }
    }
}
