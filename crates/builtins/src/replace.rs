use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::error::Error;
use crate::name::Name;
use crate::version::same_state;
use crate::{attributes, in_place, kind};

/// Linux follows as many symbolic links (path_resolution(7)).
const LINKS: usize = 40;

/// A file that is about to get other content.
#[derive(Debug)]
pub(crate) struct Target {
    name: Name,
    /// Where it is, with no symbolic link at the end.
    path: PathBuf,
    before: Option<Metadata>,
}

/// How the content got there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum How {
    Created,
    /// Another file took the place, in one step.
    Replaced {
        links: u64,
    },
    /// Written into the file itself, for the reason given.
    InPlace(&'static str),
}

impl How {
    /// What the caller should know about it.
    pub(crate) fn remark(&self) -> Option<String> {
        match self {
            Self::Created | Self::Replaced { links: ..=1 } => None,
            Self::Replaced { links } => Some(format!(
                "the file had {links} hard links; the others keep the old content"
            )),
            Self::InPlace(why) => Some(format!(
                "written in place and not in one step, because {why}"
            )),
        }
    }
}

impl Target {
    /// Finds the file, which must be a regular one if it is there.
    pub(crate) fn find(name: &Name) -> Result<Self, Error> {
        let path = resolve(name)?;
        let before = match std::fs::symlink_metadata(&path) {
            Ok(about) => Some(about),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io("look at", name)(error)),
        };
        if let Some(about) = &before {
            kind::must_be_regular(name, about.file_type())?;
        }
        Ok(Self {
            name: name.clone(),
            path,
            before,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn before(&self) -> Option<&Metadata> {
        self.before.as_ref()
    }

    /// Refuses if the file is not what it was when it was found. Between this
    /// and the rename is a moment in which nobody is noticed.
    pub(crate) fn must_be_unchanged(&self) -> Result<(), Error> {
        let now = std::fs::symlink_metadata(&self.path).ok();
        let same = match (&self.before, &now) {
            (Some(before), Some(now)) => same_state(before, now),
            (None, None) => true,
            _ => false,
        };
        if same {
            return Ok(());
        }
        Err(Error::NotChanged {
            name: self.name.clone(),
            problem: "somebody else changed or replaced it meanwhile; read it again".to_owned(),
        })
    }

    /// Gives the file this content: all of it, on the disk, or none of it.
    ///
    /// A temporary file beside it takes its place by rename(2), with its mode,
    /// owner, access control list and user attributes. Where that cannot be,
    /// the file itself is written.
    pub(crate) fn replace(&self, content: &[u8], unchanged: bool) -> Result<How, Error> {
        self.must_be_writable()?;
        self.must_fit(content)?;
        let failed = |source: io::Error| Error::NotWritten {
            name: self.name.clone(),
            existed: self.before.is_some(),
            source,
        };
        match self.beside(content, unchanged)? {
            Ok(how) => Ok(how),
            Err(Obstacle::Reason(why, _)) if self.before.is_some() => {
                in_place::write(&self.name, &self.path, content)?;
                Ok(How::InPlace(why))
            }
            Err(Obstacle::Reason(_, source) | Obstacle::Error(source)) => Err(failed(source)),
        }
    }

    fn beside(&self, content: &[u8], unchanged: bool) -> Result<Result<How, Obstacle>, Error> {
        let directory = match self.path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        // The umask and a default access control list apply to a new file.
        let mut refused = None;
        let made = tempfile::Builder::new()
            .prefix(".ollie-")
            .make_in(directory, |path| {
                let mut options = File::options();
                let made = options.read(true).write(true).create_new(true).open(path);
                made.inspect_err(|error| refused = error.raw_os_error())
            });
        let mut temporary = match made {
            Ok(temporary) => temporary,
            Err(error) => {
                // Without the path that `tempfile` adds: nobody asked for that
                // file, and a person would be told to allow it.
                let error = refused.map_or(error, io::Error::from_raw_os_error);
                return Ok(Err(Obstacle::of(error, "its directory takes no new file")));
            }
        };
        let written = temporary
            .write_all(content)
            .and_then(|()| match &self.before {
                Some(before) => attributes::copy(&self.path, before, temporary.as_file()),
                None => Ok(Ok(())),
            })
            .and_then(|kept| temporary.as_file().sync_all().map(|()| kept));
        match written {
            Ok(Ok(())) => {}
            Ok(Err(lost)) => return Ok(Err(Obstacle::Reason(lost, Errno::PERM.into()))),
            Err(error) => return Ok(Err(Obstacle::Error(error))),
        }
        if unchanged {
            self.must_be_unchanged()?;
        }
        if let Err(failure) = temporary.persist(&self.path) {
            let why = "another file may not take its place";
            return Ok(Err(Obstacle::of(failure.error, why)));
        }
        // The rename is done; that it lasts is all that may fail now.
        if let Ok(directory) = File::open(directory) {
            let _ = directory.sync_all();
        }
        Ok(Ok(match &self.before {
            Some(before) => How::Replaced {
                links: before.nlink(),
            },
            None => How::Created,
        }))
    }

    /// A rename would not ask whether the file itself may be written.
    fn must_be_writable(&self) -> Result<(), Error> {
        use rustix::fs::{Mode, OFlags};

        if self.before.is_none() {
            return Ok(());
        }
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match rustix::fs::open(&self.path, flags | OFlags::NOFOLLOW, Mode::empty()) {
            // A program that runs can be replaced, though not written.
            Ok(_) | Err(Errno::TXTBSY) => Ok(()),
            Err(errno) => Err(Error::NotWritten {
                name: self.name.clone(),
                existed: true,
                source: errno.into(),
            }),
        }
    }

    /// Above this limit the kernel ends the process (setrlimit(2)), and what
    /// it had begun would stay.
    fn must_fit(&self, content: &[u8]) -> Result<(), Error> {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        match limit {
            Some(limit) if content.len() as u64 > limit => Err(Error::NotChanged {
                name: self.name.clone(),
                problem: format!(
                    "{} bytes are more than the limit of {limit} bytes for one file",
                    content.len()
                ),
            }),
            _ => Ok(()),
        }
    }
}

/// Why a file could not be put in the place of another.
enum Obstacle {
    Error(io::Error),
    /// The file itself may still be written.
    Reason(&'static str, io::Error),
}

impl Obstacle {
    fn of(error: io::Error, why: &'static str) -> Self {
        use io::ErrorKind::{CrossesDevices, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};

        match error.kind() {
            // The last two: something is mounted on the file.
            PermissionDenied | ReadOnlyFilesystem | ResourceBusy | CrossesDevices => {
                Self::Reason(why, error)
            }
            _ => Self::Error(error),
        }
    }
}

/// Follows symbolic links at the end of the path, also to what is not there.
fn resolve(name: &Name) -> Result<PathBuf, Error> {
    let mut path = name.path().to_owned();
    for _ in 0..LINKS {
        match std::fs::read_link(&path) {
            Ok(target) => {
                let beside = path.parent().unwrap_or(Path::new(""));
                path = beside.join(target);
            }
            // EINVAL: no link.
            Err(_) => return Ok(path),
        }
    }
    Err(Error::io("follow", name)(Errno::LOOP))
}
