//! The text of the two kinds of record that Landlock writes.

use super::Refused;
use stockade_sys::audit::AuditRecord;
use stockade_types::{DenialKind, visible};

/// linux/audit.h: `AUDIT_LANDLOCK_ACCESS`
const ACCESS: u16 = 1423;
/// linux/audit.h: `AUDIT_LANDLOCK_DOMAIN`
const DOMAIN: u16 = 1424;

/// What a record says.
#[derive(Debug, PartialEq, Eq)]
pub enum Record {
    /// A domain refused something.
    Refused { domain: u64, refused: Refused },
    /// By the name of which process a domain was made.
    Made { domain: u64, by: String },
    /// It has no process any more.
    Gone { domain: u64 },
}

impl Record {
    /// `None` for one that is not Landlock's, or says nothing of use.
    pub fn read(record: &AuditRecord) -> Option<Self> {
        if !matches!(record.kind, ACCESS | DOMAIN) {
            return None;
        }
        let fields = fields(&record.text);
        let get = |name: &str| fields.iter().find(|(known, _)| *known == name.as_bytes());
        let text = |name| get(name).map(|(_, value)| String::from_utf8_lossy(value).into_owned());
        let domain = u64::from_str_radix(&text("domain")?, 16).ok()?;
        if record.kind == ACCESS {
            let rights = text("blockers")?;
            let kind = kind(&rights);
            let target = match kind {
                DenialKind::Syscall => format!("signal to pid {}", text("opid")?),
                DenialKind::Network => [text("path"), text("daddr"), text("dest"), text("src")]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
                    .join(":"),
                _ => text("path").or_else(|| text("dev"))?,
            };
            let target = visible(&target);
            return Some(Self::Refused { domain, refused: Refused { kind, target, rights } });
        }
        match text("status")?.as_str() {
            "allocated" => Some(Self::Made { domain, by: text("comm")? }),
            "deallocated" => Some(Self::Gone { domain }),
            _ => None,
        }
    }
}

fn kind(rights: &str) -> DenialKind {
    let reading = |right: &str| matches!(right, "fs.read_file" | "fs.read_dir" | "fs.execute");
    let mut all = rights.split(',');
    if rights.starts_with("net.") || rights.contains("scope.abstract_unix_socket") {
        DenialKind::Network
    } else if rights.starts_with("scope.") {
        DenialKind::Syscall
    } else if all.all(reading) {
        DenialKind::Read
    } else {
        DenialKind::Write
    }
}

/// `name=value` by `name=value`: a value in quotes is as it stands there; one that holds what cannot stand in quotes is in
/// hexadecimal digits instead (`audit_log_untrustedstring` in the kernel's kernel/audit.c).
fn fields(text: &[u8]) -> Vec<(&[u8], Vec<u8>)> {
    let mut fields = Vec::new();
    let mut rest = text;
    while let Some(equals) = rest.iter().position(|byte| *byte == b'=') {
        let (before, after) = rest.split_at(equals);
        let name = before.rsplit(|byte| *byte == b' ').next().unwrap_or(before);
        let after = after.get(1..).unwrap_or_default();
        let (value, behind) = match after.strip_prefix(b"\"") {
            Some(quoted) => {
                let end = quoted.iter().position(|byte| *byte == b'"').unwrap_or(quoted.len());
                (quoted.get(..end).unwrap_or_default().to_vec(), quoted.get(end + 1..))
            }
            None => {
                let end = after.iter().position(|byte| *byte == b' ').unwrap_or(after.len());
                let bare = after.get(..end).unwrap_or_default();
                let untrusted = matches!(name, b"path" | b"comm" | b"ocomm" | b"exe");
                let value = if untrusted { hexadecimal(bare) } else { None };
                (value.unwrap_or_else(|| bare.to_vec()), after.get(end..))
            }
        };
        fields.push((name, value));
        rest = behind.unwrap_or_default();
    }
    fields
}

fn hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = digits.chunks_exact(2);
    if digits.is_empty() || !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: u16, text: &str) -> Option<Record> {
        Record::read(&AuditRecord { kind, text: text.as_bytes().to_vec() })
    }

    fn refused(text: &str) -> Option<(DenialKind, String)> {
        match read(ACCESS, text)? {
            Record::Refused { domain: 0x1ac0_524c9, refused } => {
                Some((refused.kind, refused.target))
            }
            _ => None,
        }
    }

    // As kernel 6.18 wrote them.
    #[test] // spec 5.9
    fn the_kernels_records_are_understood() {
        let path = "audit(1796058796.340:56): domain=1ac0524c9 blockers=fs.read_file path=\"/etc/passwd\" dev=\"vda\" ino=737";
        assert_eq!(refused(path), Some((DenialKind::Read, "/etc/passwd".into())));
        let made = "audit(1796058796.340:54): domain=1ac0524c9 status=allocated mode=enforcing pid=6058 uid=0 exe=\"/usr/bin/x\" comm=\"sc0123456789abc\"";
        let expected = Record::Made { domain: 0x1ac0_524c9, by: "sc0123456789abc".into() };
        assert_eq!(read(DOMAIN, made), Some(expected));
        let gone = "audit(1796058796.384:58): domain=1ac0524c9 status=deallocated denials=4";
        assert_eq!(read(DOMAIN, gone), Some(Record::Gone { domain: 0x1ac0_524c9 }));
    }

    #[test] // spec 5.9
    fn names_with_blanks_addresses_and_signals_are_told() {
        let of = |rest: &str| refused(&format!("audit(1.2:3): domain=1ac0524c9 {rest}"));
        let blank = of("blockers=fs.make_reg,fs.refer path=2F746D702F6120622F0A dev=\"vda\" ino=1");
        assert_eq!(blank, Some((DenialKind::Write, "/tmp/a b/\\n".into())));
        let network = of("blockers=net.connect_tcp daddr=127.0.0.1 dest=80");
        assert_eq!(network, Some((DenialKind::Network, "127.0.0.1:80".into())));
        let signal = of("blockers=scope.signal opid=1 ocomm=\"systemd\"");
        assert_eq!(signal, Some((DenialKind::Syscall, "signal to pid 1".into())));
        // A path that looks like fields: it would not have been left in quotes if it held one.
        let forged = of("blockers=fs.read_file path=\"/a domain=1 blockers=fs.x\" dev=\"vda\"");
        assert_eq!(forged, Some((DenialKind::Read, "/a domain=1 blockers=fs.x".into())));
    }

    #[test]
    fn what_is_no_record_of_landlocks_is_left_alone() {
        assert_eq!(read(1300, "audit(1.2:3): domain=1 blockers=fs.read_file path=\"/x\""), None);
        for text in
            ["", "=", "audit(", "domain=zz blockers=x", "domain=1", "domain=1 blockers=fs.x path="]
        {
            let _ = read(ACCESS, text);
            let _ = read(DOMAIN, text);
        }
        assert_eq!(read(DOMAIN, "audit(1.2:3): domain=1 status=other"), None);
    }
}
