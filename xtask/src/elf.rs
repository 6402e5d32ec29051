//! The few fields of an ELF file that tell whether it runs by itself.
//!
//! `ldd` is no judge here: of a file that names a missing interpreter it says
//! "statically linked". The program headers are the truth, see elf(5) and the
//! System V ABI, chapters 4 and 5.

use std::path::Path;

use crate::failure::Failure;

const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;

/// What an executable needs from the machine that runs it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Elf {
    /// `e_machine`.
    pub(crate) machine: u16,
    /// The program that would have to load it, from `PT_INTERP`.
    pub(crate) interpreter: Option<String>,
    /// How many shared libraries it names.
    pub(crate) libraries: usize,
}

impl Elf {
    /// Reads a 64-bit little-endian file, the only kind ollie is built for.
    /// `None` if it is not one, or if a header points outside of it.
    pub(crate) fn parse(file: &[u8]) -> Option<Self> {
        let ident = file.get(..16)?;
        if ident[..4] != *b"\x7fELF" || ident[4] != 2 || ident[5] != 1 {
            return None;
        }
        let table = usize::try_from(u64_at(file, 32)?).ok()?;
        let entry = usize::from(u16_at(file, 54)?);
        let count = usize::from(u16_at(file, 56)?);
        let mut elf = Self {
            machine: u16_at(file, 18)?,
            interpreter: None,
            libraries: 0,
        };
        for index in 0..count {
            let at = table.checked_add(index.checked_mul(entry)?)?;
            let kind = u32_at(file, at)?;
            if kind != PT_INTERP && kind != PT_DYNAMIC {
                continue;
            }
            let start = usize::try_from(u64_at(file, at.checked_add(8)?)?).ok()?;
            let size = usize::try_from(u64_at(file, at.checked_add(32)?)?).ok()?;
            let segment = file.get(start..start.checked_add(size)?)?;
            if kind == PT_INTERP {
                let name = segment.split(|byte| *byte == 0).next()?;
                elf.interpreter = Some(String::from_utf8_lossy(name).into_owned());
            } else {
                elf.libraries = needed(segment)?;
            }
        }
        Some(elf)
    }

    /// The name that `uname -m` and Rust give the machine.
    pub(crate) fn arch(&self) -> Option<&'static str> {
        match self.machine {
            62 => Some("x86_64"),
            183 => Some("aarch64"),
            243 => Some("riscv64"),
            _ => None,
        }
    }
}

/// Fails unless the file runs on a host that has nothing but a kernel.
pub(crate) fn check_static(path: &Path, file: &[u8], arch: &str) -> Result<(), Failure> {
    let name = path.display();
    let Some(elf) = Elf::parse(file) else {
        return Err(Failure::new(format!("{name} is no 64-bit ELF file")));
    };
    if let Some(interpreter) = elf.interpreter {
        return Err(Failure::new(format!(
            "{name} has a PT_INTERP ({interpreter}): it would not start on a host without it"
        )));
    }
    if elf.libraries != 0 {
        return Err(Failure::new(format!(
            "{name} names {} shared libraries",
            elf.libraries
        )));
    }
    if elf.arch() != Some(arch) {
        return Err(Failure::new(format!(
            "{name} is for machine {}, not {arch}",
            elf.machine
        )));
    }
    Ok(())
}

fn needed(dynamic: &[u8]) -> Option<usize> {
    let mut count = 0;
    for at in (0..dynamic.len()).step_by(16) {
        match u64_at(dynamic, at)? {
            DT_NULL => break,
            DT_NEEDED => count += 1,
            _ => {}
        }
    }
    Some(count)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of the System V ABI, then program headers of 56 bytes:
    /// type, flags, offset, vaddr, paddr, filesz, memsz, align.
    fn elf(machine: u16, segments: &[(u32, &[u8])]) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        file.extend(3_u16.to_le_bytes());
        file.extend(machine.to_le_bytes());
        file.extend(1_u32.to_le_bytes());
        file.extend([0; 8]);
        file.extend(64_u64.to_le_bytes());
        file.extend([0; 12]);
        file.extend(64_u16.to_le_bytes());
        file.extend(56_u16.to_le_bytes());
        file.extend((segments.len() as u16).to_le_bytes());
        file.resize(64, 0);
        let mut offset = 64 + 56 * segments.len();
        for (kind, contents) in segments {
            file.extend(kind.to_le_bytes());
            file.extend([0; 4]);
            file.extend((offset as u64).to_le_bytes());
            file.extend([0; 16]);
            file.extend((contents.len() as u64).to_le_bytes());
            file.extend([0; 16]);
            offset += contents.len();
        }
        for (_, contents) in segments {
            file.extend(*contents);
        }
        file
    }

    fn dynamic(tags: &[u64]) -> Vec<u8> {
        tags.iter()
            .flat_map(|tag| [*tag, 9])
            .flat_map(u64::to_le_bytes)
            .collect()
    }

    #[test]
    fn a_static_file_passes_for_its_machine_only() {
        let file = elf(62, &[(1, b"code"), (2, &dynamic(&[5, 0, 1]))]);
        let path = Path::new("toolsrv");
        check_static(path, &file, "x86_64").expect("static");
        assert!(check_static(path, &file, "aarch64").is_err());
        assert!(check_static(path, &elf(183, &[]), "aarch64").is_ok());
    }

    #[test]
    fn an_interpreter_is_found_and_named() {
        let file = elf(62, &[(1, b"x"), (3, b"/lib/ld-musl-x86_64.so.1\0")]);
        let failure = check_static(Path::new("t"), &file, "x86_64").expect_err("interpreter");
        assert!(
            failure.to_string().contains("(/lib/ld-musl-x86_64.so.1)"),
            "{failure}"
        );
    }

    #[test]
    fn shared_libraries_are_counted_up_to_the_end_of_the_section() {
        let file = elf(62, &[(2, &dynamic(&[1, 1, 0, 1]))]);
        assert_eq!(Elf::parse(&file).expect("valid").libraries, 2);
        assert!(check_static(Path::new("t"), &file, "x86_64").is_err());
    }

    #[test]
    fn the_running_test_itself_is_understood() {
        let file = std::fs::read(std::env::current_exe().expect("own path")).expect("readable");
        let elf = Elf::parse(&file).expect("an ELF file");
        assert_eq!(elf.arch(), Some(std::env::consts::ARCH));
        assert_eq!(
            elf.interpreter.is_some(),
            cfg!(not(target_feature = "crt-static"))
        );
    }

    #[test]
    fn a_cut_file_is_no_elf_file() {
        let file = elf(62, &[(3, b"/lib/ld.so\0"), (2, &dynamic(&[1, 0]))]);
        for cut in 0..file.len() {
            assert_eq!(Elf::parse(&file[..cut]), None, "cut at {cut}");
        }
        let mut wide = file.clone();
        wide[64 + 8..64 + 16].fill(0xff);
        assert_eq!(Elf::parse(&wide), None);
    }
}
