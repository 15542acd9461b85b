use crate::error::EntryError;
use crate::{NetworkMode, NetworkPolicy};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

impl FromStr for NetworkPolicy {
    type Err = EntryError;

    /// Reads the argument of `--net`: `none`, `host`, or a list of `HOST[:PORT]` parted by commas, which means the proxy.
    fn from_str(text: &str) -> Result<Self, EntryError> {
        match text {
            "none" => Ok(Self::default()),
            "host" => Ok(Self { mode: NetworkMode::Host, ..Self::default() }),
            _ => {
                let allow: Vec<String> =
                    text.split(',').map(|host| host.trim().to_owned()).collect();
                allow.iter().try_for_each(|host| check_host(host))?;
                Ok(Self { mode: NetworkMode::Proxy, allow, ..Self::default() })
            }
        }
    }
}

/// Checks a `host[:port]` pattern: a name, `*.name`, `*`, an IPv4 address, or an IPv6 address in brackets.
pub(crate) fn check_host(entry: &str) -> Result<(), EntryError> {
    HostPattern::parse(entry).map(drop)
}

/// A `host[:port]` pattern, understood. Names are compared without regard to case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostPattern {
    pub host: Host,
    /// `None`: every port.
    pub port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Host {
    /// `*`: every name and address.
    Any,
    /// `*.example.org`: what ends with it, and not the name itself.
    Under(String),
    Name(String),
    Address(IpAddr),
}

impl HostPattern {
    pub fn parse(entry: &str) -> Result<Self, EntryError> {
        let refuse = |problem: &str| {
            Err(EntryError { entry: entry.to_owned(), problem: problem.to_owned() })
        };
        if entry.contains("://") || entry.contains('/') {
            return refuse("a host is written as HOST or HOST:PORT, not as an URL");
        }
        let (host, port) = match entry.strip_prefix('[') {
            Some(rest) => {
                let Some((address, port)) = rest.split_once(']') else {
                    return refuse("the ']' after the IPv6 address is missing");
                };
                let Ok(address) = address.parse::<Ipv6Addr>() else {
                    return refuse("what stands in brackets is not an IPv6 address");
                };
                let port = match (port, port.strip_prefix(':')) {
                    ("", _) => None,
                    (_, Some(port)) => Some(port),
                    _ => return refuse("only ':PORT' may follow the ']'"),
                };
                (Some(Host::Address(address.into())), port)
            }
            None if entry.parse::<Ipv6Addr>().is_ok() => {
                return refuse("an IPv6 address is written in brackets, as in [2001:db8::1]:443");
            }
            None => match entry.rsplit_once(':') {
                Some((host, port)) => (Host::parse(host), Some(port)),
                None => (Host::parse(entry), None),
            },
        };
        let port = match port.map(parse_port) {
            Some(None) => return refuse("a port is a number from 1 to 65535"),
            Some(port) => port,
            None => None,
        };
        match host {
            Some(host) => Ok(Self { host, port }),
            None => refuse(
                "not a host: use a name, *.name, an IPv4 address or an IPv6 address in brackets",
            ),
        }
    }

    /// Whether everything that `other` stands for is meant.
    pub fn covers(&self, other: &Self) -> bool {
        self.host.covers(&other.host) && (self.port.is_none() || self.port == other.port)
    }

    /// What both stand for: of two hosts that have anything in common, one covers the other.
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        let host = if self.host.covers(&other.host) {
            other.host.clone()
        } else if other.host.covers(&self.host) {
            self.host.clone()
        } else {
            return None;
        };
        match (self.port, other.port) {
            (Some(ours), Some(theirs)) if ours != theirs => None,
            (ours, theirs) => Some(Self { host, port: ours.or(theirs) }),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.host.fmt(f)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl Host {
    fn parse(host: &str) -> Option<Self> {
        if host == "*" {
            return Some(Self::Any);
        }
        let (under, name) = match host.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, host),
        };
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        // "1.2.3" and "256.1.1.1" are read as addresses by some resolvers, and differently.
        let last_is_number =
            name.rsplit('.').next().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()));
        if last_is_number {
            let address = name.parse::<Ipv4Addr>().ok().filter(|_| !under)?;
            return Some(Self::Address(address.into()));
        }
        if name.len() > 253 || !name.split('.').all(label) {
            return None;
        }
        let name = name.to_ascii_lowercase();
        Some(if under { Self::Under(name) } else { Self::Name(name) })
    }

    fn covers(&self, other: &Self) -> bool {
        let ends = |name: &str, suffix: &str| {
            name.strip_suffix(suffix).is_some_and(|before| before.ends_with('.'))
        };
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Under(suffix), Self::Name(name)) => ends(name, suffix),
            (Self::Under(suffix), Self::Under(name)) => name == suffix || ends(name, suffix),
            _ => self == other,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Under(name) => write!(f, "*.{name}"),
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// `parse` alone would also take "+80".
fn parse_port(port: &str) -> Option<u16> {
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| port.parse().ok()).flatten().filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn net_arguments_are_a_mode_or_a_list_of_hosts() {
        // spec 5.5, 10.1 (--net)
        let parse = |text: &str| text.parse::<NetworkPolicy>().unwrap();
        assert_eq!(parse("none").mode, NetworkMode::None);
        assert_eq!(parse("host").mode, NetworkMode::Host);
        assert_eq!(
            parse("example.org:443, *.example.net"),
            NetworkPolicy {
                mode: NetworkMode::Proxy,
                allow: vec!["example.org:443".into(), "*.example.net".into()],
                ..NetworkPolicy::default()
            }
        );
    }

    #[test]
    fn hosts_are_names_or_addresses_with_or_without_a_port() {
        // spec 5.5
        for good in [
            "localhost",
            "example.org:1",
            "*",
            "*:443",
            "*.a.b",
            "10.0.0.1:80",
            "[::1]",
            "[::1]:8080",
        ] {
            check_host(good).unwrap();
        }
        for bad in [
            "",
            ":80",
            "a b",
            "https://a",
            "a/b",
            "a:0",
            "a:65536",
            "a:+1",
            "a:",
            "a..b",
            "*a.b",
            "a.*",
            "256.1.1.1",
            "1.2.3",
            "::1",
            "[::1",
            "[x]",
            "[::1]8",
            "*.1.2.3.4",
            "é.org",
        ] {
            assert!(check_host(bad).is_err(), "{bad}");
        }
        assert!("".parse::<NetworkPolicy>().is_err());
        assert!("a,,b".parse::<NetworkPolicy>().is_err());
    }
}
