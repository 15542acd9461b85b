use crate::{NetworkMode, Policy};
use stockade_types::Layer;

impl Policy {
    /// Whether the policy asks for this layer at all. What it does not ask for is reported as not requested, and is
    /// never missing.
    ///
    /// Full access asks for no confinement of files and no namespace but the network's, if it closes that; a provider
    /// may still use a pid namespace to end the tree.
    pub fn requests(&self, layer: Layer) -> bool {
        let full_access = self.is_full_access();
        let own_network = self.network.mode != NetworkMode::Host;
        let filter = !self.syscalls.allow.iter().any(|group| group == "all");
        match layer {
            Layer::NetworkNamespace => own_network,
            // Without privileges, a network namespace can be had only inside a user namespace.
            Layer::UserNamespace => !full_access || own_network,
            Layer::Seccomp => filter,
            // Without privileges, a filter can be set only after no_new_privs.
            Layer::NoNewPrivs => !full_access || filter,
            Layer::Rlimits => true,
            Layer::PidNamespace
            | Layer::MountNamespace
            | Layer::IpcNamespace
            | Layer::UtsNamespace
            | Layer::CgroupNamespace
            | Layer::MountTree
            | Layer::Landlock
            | Layer::Capabilities => !full_access,
        }
    }

    /// All layers that the policy asks for: the default of `require` (spec 5.3).
    pub fn requested_layers(&self) -> Vec<Layer> {
        Layer::ALL.into_iter().filter(|layer| self.requests(*layer)).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::NetworkMode;
    use crate::testing::policy;
    use stockade_types::Layer;

    #[test]
    fn a_confining_policy_requires_every_layer_by_default() {
        // spec 5.3
        assert_eq!(policy().requested_layers(), Layer::ALL);
    }

    #[test]
    fn a_layer_that_the_policy_does_not_ask_for_is_not_required() {
        let mut policy = policy();
        policy.network.mode = NetworkMode::Host;
        assert!(!policy.requests(Layer::NetworkNamespace));
        policy.syscalls.allow = vec!["all".into()];
        assert!(!policy.requests(Layer::Seccomp));
        assert!(policy.requests(Layer::Landlock));
        policy.filesystem.write = vec!["/".into()];
        assert_eq!(policy.requested_layers(), [Layer::Rlimits]);
        policy.network.mode = NetworkMode::None;
        assert_eq!(
            policy.requested_layers(),
            [Layer::UserNamespace, Layer::NetworkNamespace, Layer::Rlimits]
        );
    }
}
