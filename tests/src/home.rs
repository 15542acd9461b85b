use crate::unique;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A home folder full of secrets, none of them real, each with a marker that occurs nowhere else.
pub struct FakeHome {
    path: PathBuf,
    marker: String,
    environment: Vec<(&'static str, String)>,
}

const FILES: [(&str, &str); 9] = [
    (
        ".ssh/id_ed25519",
        "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----\n",
    ),
    (".aws/credentials", "[default]\naws_secret_access_key = {}\n"),
    (".netrc", "machine example.invalid login me password {}\n"),
    (".cargo/credentials.toml", "[registry]\ntoken = \"{}\"\n"),
    (".npmrc", "//example.invalid/:_authToken={}\n"),
    (".git-credentials", "https://me:{}@example.invalid\n"),
    (".docker/config.json", "{\"auths\":{\"example.invalid\":{\"auth\":\"{}\"}}}\n"),
    (".config/gh/hosts.yml", "example.invalid:\n    oauth_token: {}\n"),
    ("notes/passwords.txt", "bank: {}\n"),
];

const VARIABLES: [&str; 6] = [
    "AWS_SECRET_ACCESS_KEY",
    "GITHUB_TOKEN",
    "OPENAI_API_KEY",
    "NPM_TOKEN",
    "DATABASE_PASSWORD",
    "SSH_PRIVATE_KEY",
];

impl FakeHome {
    /// Fills this folder, which is made if need be.
    pub fn new(path: &Path) -> Self {
        let marker = format!("fake-secret-{}", unique());
        for (n, (name, text)) in FILES.iter().enumerate() {
            let file = path.join(name);
            fs::create_dir_all(file.parent().expect("a file lies in a folder")).expect("a folder");
            fs::write(file, text.replace("{}", &format!("{marker}-file{n}")))
                .expect("a secret file");
        }
        fs::write(path.join(".bashrc"), "# nothing yet\n").expect("a start file");
        let environment =
            VARIABLES.iter().map(|name| (*name, format!("{marker}-env-{name}"))).collect();
        Self { path: path.to_path_buf(), marker, environment }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What every secret of it contains, and nothing else in the world does.
    pub fn marker(&self) -> &str {
        &self.marker
    }

    /// The secret files, absolute.
    pub fn files(&self) -> Vec<PathBuf> {
        FILES.iter().map(|(name, _)| self.path.join(name)).collect()
    }

    /// Gives a process this home, its secrets in the environment, and little else.
    pub fn dress<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .env("HOME", &self.path)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
    }
}
