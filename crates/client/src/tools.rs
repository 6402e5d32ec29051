use bytes::Bytes;
use ninep_rs::OpenMode;
use ollie_protocol::{Defined, Definition, ToolInfo, limits, tree};

use crate::{Error, ToolsrvConn};

/// Tools of a session.
impl ToolsrvConn {
    /// Every tool there is, by name: for this agent, and on that host.
    ///
    /// # Errors
    /// [`Error::Malformed`] if a record is not what this side knows.
    pub async fn tools(&self) -> Result<Vec<ToolInfo>, Error> {
        let index = self
            .read_file(&format!("{}/{}", tree::TOOLS, tree::INDEX))
            .await?;
        let parse = |line| {
            serde_json::from_slice(line).map_err(|source| Error::Malformed {
                record: "tool record",
                source,
            })
        };
        index
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(parse)
            .collect()
    }

    /// Defines a tool, takes one back, or says that a newer version of one is
    /// broken. One round trip.
    ///
    /// # Errors
    /// [`Error::Refused`] with the field that is wrong; then everything is as
    /// it was.
    pub async fn define(&self, definition: &Definition) -> Result<Defined, Error> {
        let json = serde_json::to_vec(definition).map_err(|source| Error::Malformed {
            record: "definition",
            source,
        })?;
        if json.len() > limits::DEFINITION_MAX {
            return Err(Error::Refused(format!(
                "the definition has {} bytes, at most {} are taken",
                json.len(),
                limits::DEFINITION_MAX
            )));
        }
        let json = Bytes::from(json);
        let (file, walking) = self.root().walk([tree::TOOLS, tree::DEFINE]);
        let opening = file.open(OpenMode::READ_WRITE);
        let most = self.max_data();
        let writes: Vec<_> = (0..json.len())
            .step_by(most)
            .map(|at| file.write(0, json.slice(at..json.len().min(at + most))))
            .collect();
        // An answer is short: the SHA-256 of at most 16 scripts.
        let reading = file.read(0, 8192);
        walking.await?;
        opening.await?;
        for write in writes {
            write.await?;
        }
        serde_json::from_slice(&reading.await?).map_err(|source| Error::Malformed {
            record: "answer to a definition",
            source,
        })
    }

    /// Gives this agent a tool again that it has unloaded.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such tool.
    pub async fn load(&self, tool: &str) -> Result<(), Error> {
        self.tool_command(&format!("{} {tool}", tree::LOAD)).await
    }

    /// Takes a tool away from this agent.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such tool.
    pub async fn unload(&self, tool: &str) -> Result<(), Error> {
        self.tool_command(&format!("{} {tool}", tree::UNLOAD)).await
    }

    /// Has toolsrv look anew at which variants of its tools can run: a program
    /// may have been installed.
    ///
    /// # Errors
    /// [`Error::Lost`]
    pub async fn reload_tools(&self) -> Result<(), Error> {
        self.tool_command(tree::RELOAD).await
    }

    async fn tool_command(&self, word: &str) -> Result<(), Error> {
        let (file, walking) = self.root().walk([tree::TOOLS, tree::CTL]);
        let opening = file.open(OpenMode::WRITE);
        let writing = file.write(0, word.as_bytes().to_vec());
        walking.await?;
        opening.await?;
        writing.await?;
        Ok(())
    }
}
