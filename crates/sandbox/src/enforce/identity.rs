use super::sys;
use crate::Identity;

impl Identity {
    /// As whom this process runs (geteuid(2), getegid(2), getgroups(2)).
    ///
    /// # Errors
    /// What getgroups(2) answers.
    pub fn of_this_process() -> std::io::Result<Self> {
        sys::identity()
    }
}
