use crate::error::EntryError;
use crate::{NetworkMode, NetworkPolicy};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

impl FromStr for NetworkPolicy {
    type Err = EntryError;

    /// Reads the argument of `--net`: `none`, `host`, or a list of `HOST[:PORT]` parted by commas, which means the proxy.
    fn from_str(text: &str) -> Result<Self, EntryError> {
        match text {
            "none" => Ok(Self { mode: NetworkMode::None, allow: Vec::new() }),
            "host" => Ok(Self { mode: NetworkMode::Host, allow: Vec::new() }),
            _ => {
                let allow: Vec<String> =
                    text.split(',').map(|host| host.trim().to_owned()).collect();
                allow.iter().try_for_each(|host| check_host(host))?;
                Ok(Self { mode: NetworkMode::Proxy, allow })
            }
        }
    }
}

/// Checks a `host[:port]` pattern: a name, `*.name`, `*`, an IPv4 address, or an IPv6 address in brackets.
pub(crate) fn check_host(entry: &str) -> Result<(), EntryError> {
    let refuse =
        |problem: &str| Err(EntryError { entry: entry.to_owned(), problem: problem.to_owned() });
    if entry.contains("://") || entry.contains('/') {
        return refuse("a host is written as HOST or HOST:PORT, not as an URL");
    }
    let (host, port) = match entry.strip_prefix('[') {
        Some(rest) => {
            let Some((address, port)) = rest.split_once(']') else {
                return refuse("the ']' after the IPv6 address is missing");
            };
            if address.parse::<Ipv6Addr>().is_err() {
                return refuse("what stands in brackets is not an IPv6 address");
            }
            match (port, port.strip_prefix(':')) {
                ("", _) => (None, None),
                (_, Some(port)) => (None, Some(port)),
                _ => return refuse("only ':PORT' may follow the ']'"),
            }
        }
        None if entry.parse::<Ipv6Addr>().is_ok() => {
            return refuse("an IPv6 address is written in brackets, as in [2001:db8::1]:443");
        }
        None => match entry.rsplit_once(':') {
            Some((host, port)) => (Some(host), Some(port)),
            None => (Some(entry), None),
        },
    };
    if port.is_some_and(|port| !is_port(port)) {
        return refuse("a port is a number from 1 to 65535");
    }
    match host {
        Some(host) if !is_host(host) => {
            refuse("not a host: use a name, *.name, an IPv4 address or an IPv6 address in brackets")
        }
        _ => Ok(()),
    }
}

fn is_port(port: &str) -> bool {
    port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn is_host(host: &str) -> bool {
    let name = if host == "*" {
        return true;
    } else {
        host.strip_prefix("*.").unwrap_or(host)
    };
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    // "1.2.3" and "256.1.1.1" are read as addresses by some resolvers, and differently.
    let last_is_number =
        name.rsplit('.').next().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()));
    if last_is_number {
        return name == host && name.parse::<Ipv4Addr>().is_ok();
    }
    name.len() <= 253 && name.split('.').all(label)
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
