//! Programs of which it is known what their words mean. Of any other a word may be a command that it runs.

/// Their words, and the files that they name, are data to them, and nothing else.
pub(crate) fn takes_data(name: &str) -> bool {
    DATA.split_whitespace().any(|known| known == name)
}

/// Their words are data, names of files, or subcommands of their own. What makes more of them is known by its option.
pub(crate) fn is_known(name: &str) -> bool {
    takes_data(name) || KNOWN.split_whitespace().any(|known| known == name)
}

const DATA: &str = "\
    ls cat head tail wc grep egrep fgrep zgrep zcat xzcat bzcat zstdcat sort uniq cut tr nl tac rev paste join comm diff cmp sdiff diff3 \
    colordiff file stat du df pwd echo printf true false : test [ basename dirname realpath readlink seq date printenv id whoami \
    groups users who w last uname hostname arch nproc uptime free ps pgrep pidof top which type whereis apropos whatis tree od xxd \
    hexdump hd strings md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum shasum md5 expr sleep cd pushd popd dirs \
    fold fmt column expand unexpand numfmt pr jq yq base64 base32 locale getconf tsort look cal ncal lscpu lsblk lsusb lspci lsmod \
    wait exit return break continue shift export local declare typeset readonly unset read let getopts umask ulimit jobs fg bg kill \
    pkill killall disown times history help tee less more most uuencode uudecode cp mv ln mkdir rmdir touch chmod chown chgrp mktemp truncate shred dd install gzip \
    gunzip bzip2 bunzip2 xz unxz zstd unzstd lz4 zip unzip cloc tokei nm objdump readelf ldd size getent rev shuf factor bc yes \
    split csplit iconv dos2unix unix2dos recode enca tput clear reset stty tty mesg wall write logger renice sync mount umount mkfs \
    fsck fdisk parted blkid losetup swapon swapoff dmesg lsof fuser ifconfig ping ping6 dig nslookup host whois traceroute netstat \
    ss route arp useradd userdel usermod groupadd passwd chage finger dpkg-query dpkg rpm-query mkfifo mknod link unlink setfattr \
    getfattr setfacl getfacl lsattr chattr namei pathchk cksfv identify exiftool sips pbcopy pbpaste xclip xsel rename \
    dircolors banner figlet cowsay rmdir gshuf gdate gls ghead gtail gwc gsort guniq gcut gtr gstat";

const KNOWN: &str = "\
    git gh hub glab find fd fdfind rg ripgrep ag ack bat delta sed gsed awk gawk mawk nawk make gmake cmake ninja meson cargo rustc \
    rustup rustfmt go gofmt npm pnpm yarn bun deno gem bundle rails composer pip pip3 pipx poetry uv \
    pytest mypy black ruff flake8 pylint isort tsc eslint prettier jest vitest mocha webpack vite rollup esbuild next ng vue gradle mvn ant \
    javac java kotlinc scalac dotnet gcc cc g++ clang clang++ clang-format clang-tidy ld as ar ranlib strip objcopy gdb lldb apt apt-get \
    apt-cache apt-mark aptitude brew port yum dnf pacman zypper apk snap rpm emerge conda mamba pyenv rbenv asdf systemctl service \
    journalctl launchctl update-rc.d chkconfig man info vim vi nvim view ex emacs emacsclient nano pico code ed red tar \
    bsdtar gtar cpio pax ar curl wget http https rsync scp sftp ftp tftp lftp aria2c telnet nc ncat netcat socat openssl gpg ssh-keygen \
    ssh-add ssh-copy-id sqlite psql mysql mariadb mysqldump mysqladmin pg_dump pg_restore mongo mongosh redis-cli aws gcloud gsutil az heroku terraform \
    ansible ansible-playbook ansible-galaxy helm minikube docker podman kubectl docker-compose ffmpeg ffprobe convert magick mogrify pandoc \
    latex pdflatex xelatex lualatex bibtex tidy xmllint xsltproc xmlstarlet hg svn cvs bzr fossil patch diffstat \
    crontab at batch tmux screen script ssh su sudo xdg-open open iptables ip6tables nft ip iw iwconfig brctl tcpdump tshark nmap \
    m4 autoconf automake configure aclocal autoreconf libtool pkg-config flex bison yacc lex protoc swig doxygen ctags cscope \
    alias unalias eval source . exec command builtin trap set shopt hash bind complete compgen mapfile readarray fc enable \
    mailx mail mutt sendmail lp lpr lpq a2ps enscript pdftotext pdftk qpdf play sox mplayer mpv vlc zfs zpool btrfs lvcreate lvs vgs pvs \
    mdadm smartctl hdparm sysctl modprobe insmod rmmod depmod modinfo shutdown reboot halt poweroff init telinit runlevel \
    nproc sar vmstat iostat mpstat pidstat dstat htop iotop glances perf powertop";
