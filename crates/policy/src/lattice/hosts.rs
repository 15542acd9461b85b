//! Which hosts a policy's network reaches.

use crate::network::{Host, HostPattern};
use crate::{NetworkMode, NetworkPolicy};
use std::collections::BTreeSet;

/// Whether the proxy lets a connection to this host and port pass.
pub(super) fn reaches(network: &NetworkPolicy, target: &HostPattern) -> bool {
    let named = |list: &[String]| {
        list.iter()
            .filter_map(|entry| HostPattern::parse(entry).ok())
            .any(|entry| entry.covers(target))
    };
    match network.mode {
        NetworkMode::None => false,
        NetworkMode::Host => true,
        NetworkMode::Proxy => named(&network.allow) && !named(&network.deny),
    }
}

/// What of the network `lower` reaches and none of `uppers` does.
pub(super) fn excess(lower: &NetworkPolicy, uppers: &[&NetworkPolicy]) -> Option<String> {
    if lower.mode == NetworkMode::None || uppers.iter().any(|upper| upper.mode == NetworkMode::Host)
    {
        return None;
    }
    if lower.mode == NetworkMode::Host {
        return Some("the host's network".to_owned());
    }
    kinds(std::iter::once(lower).chain(uppers.iter().copied()))
        .into_iter()
        .find(|target| reaches(lower, target) && !uppers.iter().any(|upper| reaches(upper, target)))
        .map(|target| format!("the network to {target}"))
}

/// One destination of each kind that patterns can tell apart.
fn kinds<'a>(networks: impl Iterator<Item = &'a NetworkPolicy>) -> Vec<HostPattern> {
    let patterns: Vec<HostPattern> = networks
        .flat_map(|network| network.allow.iter().chain(&network.deny))
        .filter_map(|entry| HostPattern::parse(entry).ok())
        .collect();
    let mentioned: BTreeSet<&Host> = patterns.iter().map(|pattern| &pattern.host).collect();
    // A label that no pattern mentions.
    let mut label = "x".to_owned();
    while mentioned.iter().any(|host| host.to_string().contains(&label)) {
        label.push('x');
    }
    let hosts: BTreeSet<Host> = mentioned
        .into_iter()
        .map(|host| match host {
            Host::Any => Host::Name(label.clone()),
            Host::Under(name) => Host::Name(format!("{label}.{name}")),
            exact => exact.clone(),
        })
        .collect();
    let mut ports: BTreeSet<u16> = patterns.iter().filter_map(|pattern| pattern.port).collect();
    ports.extend((1..=u16::MAX).find(|port| !ports.contains(port)));
    hosts
        .iter()
        .flat_map(|host| {
            ports.iter().map(move |port| HostPattern { host: host.clone(), port: Some(*port) })
        })
        .collect()
}

/// What both reach. Sockets are not looked at.
pub(super) fn meet(a: &NetworkPolicy, b: &NetworkPolicy) -> NetworkPolicy {
    let hosts = |a: &NetworkPolicy| NetworkPolicy {
        mode: a.mode,
        allow: a.allow.clone(),
        deny: a.deny.clone(),
        unix_sockets: Vec::new(),
    };
    match (a.mode, b.mode) {
        (NetworkMode::None, _) | (_, NetworkMode::None) => NetworkPolicy::default(),
        (NetworkMode::Host, _) => hosts(b),
        (_, NetworkMode::Host) => hosts(a),
        (NetworkMode::Proxy, NetworkMode::Proxy) => {
            let parse = |list: &[String]| -> Vec<HostPattern> {
                list.iter().filter_map(|entry| HostPattern::parse(entry).ok()).collect()
            };
            let theirs = parse(&b.allow);
            let mut allow: Vec<String> = parse(&a.allow)
                .iter()
                .flat_map(|ours| theirs.iter().filter_map(|theirs| ours.intersect(theirs)))
                .map(|pattern| pattern.to_string())
                .collect();
            allow.sort();
            allow.dedup();
            let mut deny = a.deny.clone();
            deny.extend(b.deny.iter().filter(|entry| !a.deny.contains(entry)).cloned());
            NetworkPolicy { mode: NetworkMode::Proxy, allow, deny, unix_sockets: Vec::new() }
        }
    }
}
