use crate::{LedgerError, LedgerPaths};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;

/// Ed25519 in a signed note's key.
const ALGORITHM: u8 = 1;
const SECRET_PREFIX: &str = "PRIVATE+KEY";

/// A ledger's public key, in the text form of a C2SP signed note's verifier key: `name+hash+base64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierKey {
    pub(crate) name: String,
    key: VerifyingKey,
}

/// A ledger's secret key.
pub(crate) struct Signatory {
    key: SigningKey,
    pub verifier: VerifierKey,
}

impl VerifierKey {
    /// The first four bytes of the SHA-256 of name, newline, algorithm and key (C2SP signed-note).
    pub(crate) fn id(&self) -> [u8; 4] {
        let mut hash = Sha256::new();
        hash.update(self.name.as_bytes());
        hash.update([b'\n', ALGORITHM]);
        hash.update(self.key.as_bytes());
        let [a, b, c, d, ..] = <[u8; 32]>::from(hash.finalize());
        [a, b, c, d]
    }

    pub(crate) fn verifies(&self, text: &[u8], signature: &[u8; 64]) -> bool {
        self.key.verify_strict(text, &Signature::from_bytes(signature)).is_ok()
    }

    /// Reads a verifier key from a file: `ledger.pub`, or a copy of it.
    pub fn read(path: &Path) -> Result<Self, LedgerError> {
        let mut text = String::new();
        stockade_types::regular::open(path)
            .and_then(|file| file.take(4096).read_to_string(&mut text))
            .map_err(LedgerError::io("read", path))?;
        text.trim().parse().map_err(|problem| LedgerError::Key { path: path.to_owned(), problem })
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.id();
        let key = [&[ALGORITHM][..], self.key.as_bytes()].concat();
        write!(f, "{}+{a:02x}{b:02x}{c:02x}{d:02x}+{}", self.name, BASE64.encode(key))
    }
}

impl FromStr for VerifierKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "this is no verifier key: it has the form name+hash+base64".to_owned();
        let (name, rest) = text.split_once('+').ok_or_else(wrong)?;
        let (id, key) = rest.split_once('+').ok_or_else(wrong)?;
        let key = BASE64.decode(key).map_err(|_| wrong())?;
        let key: [u8; 32] = key
            .strip_prefix(&[ALGORITHM])
            .and_then(|key| key.try_into().ok())
            .ok_or("this verifier key is not of the algorithm Ed25519")?;
        let key = VerifyingKey::from_bytes(&key).map_err(|error| error.to_string())?;
        let verifier = Self { name: name.to_owned(), key };
        let [a, b, c, d] = verifier.id();
        if name.is_empty() || id != format!("{a:02x}{b:02x}{c:02x}{d:02x}") {
            return Err("the verifier key's hash does not fit its name and key".to_owned());
        }
        Ok(verifier)
    }
}

impl Signatory {
    /// The key beside the ledger; made, with its verifier key, where there is none and the ledger is new. Call it under the ledger's
    /// lock.
    pub fn open(paths: &LedgerPaths, may_make: bool) -> Result<Self, LedgerError> {
        match stockade_types::regular::open(&paths.key) {
            Ok(file) => Self::read(file, &paths.key),
            Err(error) if error.kind() == ErrorKind::NotFound && may_make => Self::make(paths),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(LedgerError::Key {
                path: paths.key.clone(),
                problem: "it is missing, though the ledger is not new; bring it back, or start a new ledger in another state folder".into(),
            }),
            Err(error) => Err(LedgerError::io("read the key of", &paths.key)(error)),
        }
    }

    /// Sees to it that the verifier key beside the ledger is this one's. One that is missing is written again, from the secret key; whether it was,
    /// so that it can be recorded. Another one means that somebody exchanged one of the two: nothing is written then. Call it under the
    /// ledger's lock.
    pub fn mend_verifier(&self, paths: &LedgerPaths) -> Result<bool, LedgerError> {
        match VerifierKey::read(&paths.verifier) {
            Ok(verifier) if verifier == self.verifier => Ok(false),
            Ok(_) => Err(LedgerError::Key {
                path: paths.verifier.clone(),
                problem: format!(
                    "it is not the key that {} signs with; bring the right one back, or start a new ledger in another state folder",
                    paths.key.display()
                ),
            }),
            Err(LedgerError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                write_new(&paths.verifier, format!("{}\n", self.verifier).as_bytes(), 0o644)?;
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    fn read(file: std::fs::File, path: &Path) -> Result<Self, LedgerError> {
        let wrong =
            |problem: &str| LedgerError::Key { path: path.to_owned(), problem: problem.to_owned() };
        let mut text = String::new();
        file.take(4096).read_to_string(&mut text).map_err(LedgerError::io("read", path))?;
        let parts: Vec<&str> = text.trim().splitn(5, '+').collect();
        let ["PRIVATE", "KEY", name, _, secret] = parts.as_slice() else {
            return Err(wrong("it is not of the form PRIVATE+KEY+name+hash+base64"));
        };
        let secret = BASE64.decode(secret).ok();
        let secret = secret.as_deref().and_then(|secret| secret.strip_prefix(&[ALGORITHM]));
        let secret: &[u8; 32] = secret
            .and_then(|secret| secret.try_into().ok())
            .ok_or_else(|| wrong("it holds no Ed25519 key"))?;
        Ok(Self::of(SigningKey::from_bytes(secret), (*name).to_owned()))
    }

    fn make(paths: &LedgerPaths) -> Result<Self, LedgerError> {
        let mut secret = [0; 32];
        let mut id = [0; 4];
        getrandom::fill(&mut secret).and_then(|()| getrandom::fill(&mut id)).map_err(|error| {
            LedgerError::Key {
                path: paths.key.clone(),
                problem: format!("no random bytes: {error}"),
            }
        })?;
        let name = format!("stockade-ledger/{}", crate::line::hex(&id));
        let signatory = Self::of(SigningKey::from_bytes(&secret), name);
        let public = signatory.verifier.to_string();
        let id = public.split('+').nth(1).unwrap_or_default().to_owned();
        let encoded = BASE64.encode([&[ALGORITHM][..], &secret].concat());
        let private = format!("{SECRET_PREFIX}+{}+{id}+{encoded}\n", signatory.verifier.name);
        write_new(&paths.verifier, format!("{public}\n").as_bytes(), 0o644)?;
        write_new(&paths.key, private.as_bytes(), 0o600)?;
        Ok(signatory)
    }

    fn of(key: SigningKey, name: String) -> Self {
        let verifier = VerifierKey { name, key: key.verifying_key() };
        Self { key, verifier }
    }

    pub fn sign(&self, text: &[u8]) -> [u8; 64] {
        self.key.sign(text).to_bytes()
    }
}

/// Written whole or not at all: a start that dies in between must not leave half a key.
fn write_new(path: &Path, bytes: &[u8], mode: u32) -> Result<(), LedgerError> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&new);
    file.and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, path)
    })
    .map_err(LedgerError::io("write the key of", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example key of the signed-note specification.
    #[test]
    fn a_verifier_key_has_the_form_of_a_signed_notes() {
        let text = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
        let key: VerifierKey = text.parse().unwrap();
        assert_eq!(key.to_string(), text);
        assert!(text.replace("530d", "540d").parse::<VerifierKey>().is_err());
        assert!("x".parse::<VerifierKey>().is_err());
    }
}
