use crate::wildcard;

/// Names, or patterns of names, that make an ordinary program load or run something of the caller's choice: whoever set
/// them outside did not mean the confined command, and inside they would run what the workspace holds.
const LOAD_OR_RUN: &[&str] = &[
    // The dynamic loader and the C library.
    "LD_*",
    "DYLD_*",
    "GCONV_PATH",
    "GETCONF_DIR",
    "GLIBC_TUNABLES",
    "HOSTALIASES",
    "LOCALDOMAIN",
    "LOCPATH",
    "MALLOC_TRACE",
    "NLSPATH",
    "RESOLV_HOST_CONF",
    "RES_OPTIONS",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    // Shells.
    "BASH_ENV",
    "BASH_FUNC_*",
    "BASH_LOADABLES_PATH",
    "BASH_XTRACEFD",
    "BASHOPTS",
    "CDPATH",
    "ENV",
    "FPATH",
    "GLOBIGNORE",
    "IFS",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "SHELLOPTS",
    "ZDOTDIR",
    // Interpreters and virtual machines.
    "PYTHONBREAKPOINT",
    "PYTHONEXECUTABLE",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONUSERBASE",
    "PYTHONWARNINGS",
    "PERL5DB",
    "PERL5LIB",
    "PERL5OPT",
    "PERLLIB",
    "PERL5SHELL",
    "RUBYLIB",
    "RUBYOPT",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_REPL_EXTERNAL_MODULE",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JAVA_OPTS",
    "JDK_JAVA_OPTIONS",
    "CLASSPATH",
    "MAVEN_OPTS",
    "GRADLE_OPTS",
    "SBT_OPTS",
    "JVM_OPTS",
    "LUA_INIT*",
    "LUA_PATH*",
    "LUA_CPATH*",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "R_ENVIRON*",
    "R_PROFILE*",
    "DOTNET_STARTUP_HOOKS",
    "CORECLR_*",
    "COR_*",
    "TCLLIBPATH",
    "ERL_*FLAGS",
    "ELIXIR_ERL_OPTIONS",
    "JULIA_LOAD_PATH",
    "GUILE_LOAD_PATH",
    "EMACSLOADPATH",
    "VIMINIT",
    "EXINIT",
    "AWKPATH",
    "AWKLIBPATH",
    // Build tools.
    "RUSTC",
    "RUSTDOC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_RUSTC*",
    "CARGO_TARGET_*_LINKER",
    "CARGO_TARGET_*_RUNNER",
    "GOFLAGS",
    "MAKEFLAGS",
    "MFLAGS",
    "GNUMAKEFLAGS",
    "MAKEFILES",
    "CMAKE_*_LAUNCHER",
    "npm_config_*",
    "NPM_CONFIG_*",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "TEXINPUTS",
    // Helpers that programs start.
    "LESSOPEN",
    "LESSCLOSE",
    "SUDO_ASKPASS",
    "SSH_ASKPASS*",
    "TAR_OPTIONS",
    "RSYNC_RSH",
    "CVS_RSH",
    "RSYNC_CONNECT_PROG",
    "SYSTEMD_PAGER",
    "SYSTEMD_EDITOR",
    "MANOPT",
    "GREP_OPTIONS",
    "BROWSER",
];

/// Names that lead back to the session on the host: agents, buses, displays, terminals, container daemons.
const HOST_SESSION: &[&str] = &[
    "SSH_*",
    "GPG_AGENT_INFO",
    "GPG_TTY",
    "DBUS_*",
    "XDG_RUNTIME_DIR",
    "DISPLAY",
    "WAYLAND_*",
    "XAUTHORITY",
    "ICEAUTHORITY",
    "SESSION_MANAGER",
    "PULSE_*",
    "PIPEWIRE_*",
    "AT_SPI_BUS_ADDRESS",
    "TMUX",
    "TMUX_PANE",
    "STY",
    "KITTY_LISTEN_ON",
    "NVIM",
    "NVIM_LISTEN_ADDRESS",
    "VSCODE_*",
    "NOTIFY_SOCKET",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "JOURNAL_STREAM",
    "CREDENTIALS_DIRECTORY",
    "DOCKER_*",
    "CONTAINER_HOST",
    "PODMAN_*",
    "KUBECONFIG",
    "LIBVIRT_DEFAULT_URI",
    "KRB5CCNAME",
    "KRB5_*",
];

/// Of git's many variables, those that neither run a program nor lead to other configuration, objects or refs.
const GIT_HARMLESS: &[&str] = &[
    "GIT_AUTHOR_*",
    "GIT_COMMITTER_*",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_OPTIONAL_LOCKS",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_TERMINAL_PROMPT",
    "GIT_MERGE_AUTOEDIT",
];

/// Whether a variable makes programs load or run something, or leads back to the host's session (spec 5.6).
pub(super) fn is_loader(name: &[u8]) -> bool {
    let among = |patterns: &[&str]| {
        patterns.iter().any(|pattern| wildcard::matches(pattern.as_bytes(), name))
    };
    // Git gains variables with every release: an allowlist stays right.
    let git = name.starts_with(b"GIT_") && !among(GIT_HARMLESS);
    git || among(LOAD_OR_RUN) || among(HOST_SESSION)
}

#[cfg(test)]
mod tests {
    use super::is_loader;

    #[test]
    fn variables_that_load_or_run_something_are_known() {
        // spec 5.6
        for name in [
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "LD_AUDIT",
            "DYLD_INSERT_LIBRARIES",
            "BASH_ENV",
            "ENV",
            "BASH_FUNC_ls%%",
            "BASH_FUNC_x()",
            "SHELLOPTS",
            "BASHOPTS",
            "PS4",
            "PROMPT_COMMAND",
            "IFS",
            "PYTHONSTARTUP",
            "PYTHONPATH",
            "PERL5OPT",
            "PERL5LIB",
            "RUBYOPT",
            "NODE_OPTIONS",
            "JAVA_TOOL_OPTIONS",
            "GIT_SSH_COMMAND",
            "GIT_ASKPASS",
            "GIT_EXTERNAL_DIFF",
            "GIT_CONFIG_COUNT",
            "GIT_CONFIG_KEY_0",
            "GIT_PAGER",
            "GIT_EDITOR",
            "GIT_DIR",
            "GIT_EXEC_PATH",
            "GIT_NOT_YET_INVENTED",
            "RUSTC_WRAPPER",
            "CARGO_TARGET_X86_RUNNER",
            "LESSOPEN",
            "npm_config_script_shell",
        ] {
            assert!(is_loader(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn variables_that_lead_back_to_the_host_are_known() {
        // spec 5.6
        for name in [
            "SSH_AUTH_SOCK",
            "DBUS_SESSION_BUS_ADDRESS",
            "XDG_RUNTIME_DIR",
            "DISPLAY",
            "WAYLAND_DISPLAY",
            "GPG_AGENT_INFO",
            "TMUX",
            "DOCKER_HOST",
            "KUBECONFIG",
        ] {
            assert!(is_loader(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn ordinary_variables_are_left_alone() {
        for name in [
            "PATH",
            "HOME",
            "LANG",
            "LC_ALL",
            "TERM",
            "CARGO_HOME",
            "CARGO_TARGET_DIR",
            "RUSTUP_HOME",
            "GIT_AUTHOR_NAME",
            "GIT_TERMINAL_PROMPT",
            "PYENV_ROOT",
            "JAVA_HOME",
            "GOPATH",
            "ENVIRONMENT",
            "XDG_SESSION_TYPE",
            "MY_LD_PRELOAD",
        ] {
            assert!(!is_loader(name.as_bytes()), "{name}");
        }
    }
}
