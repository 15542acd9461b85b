//! A C2SP signed note: a text, an empty line, and signature lines `— name base64(key id, signature)`.

use crate::VerifierKey;
use crate::key::Signatory;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

/// Signs a text, which must end with a newline.
pub(crate) fn sign(text: &str, key: &Signatory) -> String {
    let signature = key.sign(text.as_bytes());
    let blob = [&key.verifier.id()[..], &signature].concat();
    format!("{text}\n\u{2014} {} {}\n", key.verifier.name, BASE64.encode(blob))
}

/// The text of a note, if this key signed it. Signatures of other keys do not count, and one of this key that is false rejects the
/// note.
pub(crate) fn open<'a>(note: &'a str, key: &VerifierKey) -> Result<&'a str, String> {
    let at = note.rfind("\n\n").ok_or("it is no signed note")?;
    let (text, signatures) =
        (note.get(..=at).unwrap_or_default(), note.get(at + 2..).unwrap_or_default());
    let mut signed = false;
    for line in signatures.lines() {
        let malformed = || "it has a malformed signature line".to_owned();
        let (name, blob) = line
            .strip_prefix("\u{2014} ")
            .and_then(|line| line.rsplit_once(' '))
            .ok_or_else(malformed)?;
        let blob = BASE64.decode(blob).map_err(|_| malformed())?;
        let (id, signature) = blob.split_at_checked(4).ok_or_else(malformed)?;
        if name != key.name || id != key.id() {
            continue;
        }
        let signature = signature.try_into().map_err(|_| malformed())?;
        if !key.verifies(text.as_bytes(), signature) {
            return Err("its signature is false".to_owned());
        }
        signed = true;
    }
    if signed { Ok(text) } else { Err(format!("it is not signed by {}", key.name)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example note of the signed-note specification.
    #[test]
    fn a_note_that_another_implementation_signed_is_opened_and_a_changed_one_is_not() {
        let key: VerifierKey =
            "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
                .parse()
                .unwrap();
        let note = "This is an example message.\n\n\u{2014} example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";
        assert_eq!(open(note, &key), Ok("This is an example message.\n"));
        assert!(open(&note.replace("example m", "exampel m"), &key).is_err());
        assert!(open(&note.replace("example.com/foo U", "example.com/bar U"), &key).is_err());
        assert!(open("no note", &key).is_err());
    }
}
