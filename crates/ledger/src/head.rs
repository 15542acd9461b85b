use crate::key::Signatory;
use crate::line::{Hash, hex};
use crate::{LedgerError, LedgerPaths, VerifierKey, note};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

/// What a checkpoint says: the ledger had this many records, and the last one this hash. Its text has the lines of a C2SP checkpoint:
/// origin, size, hash in base64; the hash is the chain's, where a transparency log has a tree's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The ledger's name, which is its key's.
    pub origin: String,
    /// Records so far.
    pub size: u64,
    pub(crate) hash: Hash,
}

impl Head {
    pub(crate) fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, BASE64.encode(self.hash))
    }

    pub(crate) fn signed(&self, key: &Signatory) -> String {
        note::sign(&self.text(), key)
    }

    /// Opens a signed head.
    pub fn open(signed: &str, key: &VerifierKey) -> Result<Self, String> {
        let text = note::open(signed, key)?;
        let mut lines = text.lines();
        let mut next = || lines.next().ok_or_else(|| "it is no checkpoint".to_owned());
        let origin = next()?.to_owned();
        let size = next()?.parse().map_err(|_| "its size is no number".to_owned())?;
        let hash = BASE64.decode(next()?).ok().and_then(|hash| hash.try_into().ok());
        let hash = hash.ok_or("its hash is none")?;
        if origin != key.name {
            return Err(format!("it is of {origin:?}, not of this ledger"));
        }
        Ok(Self { origin, size, hash })
    }

    /// Reads a signed head from a file.
    pub fn read(path: &Path, key: &VerifierKey) -> Result<Self, LedgerError> {
        Self::read_some(path, key)?.ok_or_else(|| LedgerError::Broken {
            path: path.to_owned(),
            problem: "the head is missing".to_owned(),
        })
    }

    pub(crate) fn read_some(path: &Path, key: &VerifierKey) -> Result<Option<Self>, LedgerError> {
        let mut bytes = Vec::new();
        match stockade_types::regular::open(path)
            .and_then(|file| file.take(65536).read_to_end(&mut bytes))
        {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LedgerError::io("read the head of", path)(error)),
        }
        let broken = |problem: String| LedgerError::Broken {
            path: path.to_owned(),
            problem: format!("the signed head cannot be trusted: {problem}"),
        };
        let text = String::from_utf8(bytes).map_err(|_| broken("it is no text".to_owned()))?;
        Self::open(&text, key).map(Some).map_err(broken)
    }

    /// The hash of its last record, in hexadecimal.
    pub fn hash(&self) -> String {
        hex(&self.hash)
    }
}

/// Puts a signed head in the old one's place: whoever reads sees one of the two, whole.
pub(crate) fn replace(paths: &LedgerPaths, signed: &str, sync: bool) -> Result<(), LedgerError> {
    let new = paths.head.with_extension("head.new");
    std::fs::File::create(&new)
        .and_then(|mut file| {
            file.write_all(signed.as_bytes())?;
            if sync { file.sync_all() } else { Ok(()) }
        })
        .and_then(|()| std::fs::rename(&new, &paths.head))
        .map_err(LedgerError::io("write the head of", &paths.head))
}
