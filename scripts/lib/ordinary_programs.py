"""Ordinary programs without CUDA, with small work, for scripts/check-harmless: a name, whether it is one of the few that every run of the
tests takes, what has to be installed, and what bash runs in a folder with the files of `FILES`."""

FILES = """
set -e; export LC_ALL=C
seq 1 3000 | awk '{print $1, ($1*7919)%1000, "word"$1%37}' > table.txt
printf '{"a":[1,2,{"b":"c"}],"d":null}' > in.json
printf '<r><i n="1">x</i><i n="2">y</i></r>' > in.xml
printf '# Title\\n\\n* one\\n* two\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |\\n' > in.md
printf 'int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\\n#include <stdio.h>\\nint main(void) { printf("%%d\\\\n", f(15)); return 3; }\\n' > f.c
printf 'P3 4 4 255\\n' > in.ppm; for i in $(seq 1 16); do echo "$((i * 15)) $((255 - i * 15)) 7"; done >> in.ppm
mkdir d; cp table.txt d/a; ln -s a d/b; touch -d @86400 table.txt in.* f.c d/a d
"""

FAST = [
    ("coreutils", "sort", "sort -k2n table.txt | uniq -f1 -c | head -3; wc table.txt; cut -d' ' -f3 table.txt | shuf --random-source=d/a | cksum; df / > /dev/null; date -d @0; split -n3 table.txt; tac xaa | tail -1; stat -c '%s %F' d/*; ls -l --time-style=+ d; cat < /no/such"),
    ("findutils", "find", "find . -type f -print0 | sort -z | xargs -0 -n2 -P2 wc -c | sort; find d -newer f.c -exec echo {} +"),
    ("grep", "grep", "grep -c word3 table.txt; grep -nE '(1|2)5 word' table.txt | tail -2; grep -P 'word(?=7)' table.txt | head -1; grep x /no/such"),
    ("sed", "sed", "sed -n 's/word\\([0-9]\\)/W\\1/p;5q' table.txt; sed -i 1d table.txt; sed '$!d' table.txt"),
    ("awk", "awk", "awk '{s[$3]+=$2} END {for (k in s) print k, s[k] | \"sort | head -4\"}' table.txt; awk 'BEGIN {exit 7}'"),
    ("perl", "perl", "perl -e 'use POSIX; $SIG{CHLD}=sub{}; my $p=fork; exit 4 unless $p; waitpid $p,0; print $?>>8, \" $0\\n\"; kill \"USR1\",$$ if 0; print strftime(\"%Y\",gmtime 0),\"\\n\"; system(\"echo sub; exit 3\"); print $?,\"\\n\"; die \"bye\\n\"'"),
    ("python", "python3", "python3 -c 'import threading,subprocess,sys,multiprocessing as m,json,ctypes\np=m.Pool(2); print(sum(p.map(abs, range(-9,9)))); p.close(); p.join()\nt=threading.Thread(target=lambda: print(\"t\")); t.start(); t.join()\nprint(subprocess.run([\"sh\",\"-c\",\"exit 5\"]).returncode, ctypes.CDLL(None).abs(-3)); sys.exit(\"end\")'"),
    ("dash", "dash", "dash -c 'trap \"echo term\" TERM; kill -TERM $$; (exit 3) | cat; echo $?; f() { echo $#; }; f a b; ulimit -n; set -e; false; echo no'"),
    ("bash", "bash", "bash -c 'coproc cat; echo hi >&${COPROC[1]}; read -u ${COPROC[0]} l; echo $l; diff <(seq 3) <(seq 4); exec 7>x; echo y >&7; cat x; sleep 9 & kill $!; wait $!; echo $?; exit 3'"),
    ("make", "make", "printf 'all: a b\\na:\\n\\t@echo a; exit 0\\nb: a\\n\\t@echo b\\n\\tfalse\\n' > Makefile; make; make -k -s -j2; printf 'x:\\n\\t+$(MAKE) -j2 -f Makefile a\\n' > M2; make -j2 -f M2"),
    ("git", "git", "export GIT_AUTHOR_DATE='@1 +0000' GIT_COMMITTER_DATE='@1 +0000' HOME=$PWD; git init -q g; cd g; git config user.email a@b; git config user.name c; cp ../table.txt .; git add .; git commit -qm one; echo x >> table.txt; git diff --stat; git commit -qam two; git log --oneline; git gc -q; git clone -q . ../h; git fsck; git show nothing"),
    ("tar and compressors", "tar xz zstd", "tar --sort=name --mtime=@0 --owner=0 -cf - d | tee >(md5sum > sum) | xz -T2 | xz -d | tar -tv; sleep 0.1; cat sum; gzip -9n < table.txt | md5sum; zstd -q -T2 < table.txt | zstd -dq | md5sum; gzip -d < f.c"),
    ("gcc", "gcc", "gcc -O1 -pipe -Wall f.c -o f && ./f; echo $?; gcc -c f.c -flto && gcc f.o -flto -o g && ./g; echo 'int x = ;' | gcc -xc -c - -o e.o"),
    ("sqlite3", "sqlite3", "printf 'create table t(a,b);\\n.separator \" \"\\ninsert into t values(1,2),(3,4);\\nselect sum(a*b) from t;\\nselect nothing;' | sqlite3 x.db; sqlite3 x.db .dump"),
    ("jq and bc", "jq bc", "jq -c '.a[2].b, (.a|length)' in.json; jq . f.c; echo 'scale=40; 4*a(1)' | bc -l; echo '1/0' | bc"),
    ("openssl", "openssl", "openssl dgst -sha256 table.txt; openssl enc -aes-256-cbc -pbkdf2 -nosalt -k x -in f.c | md5sum; openssl genrsa 1024 2>/dev/null | openssl rsa -pubout 2>/dev/null | wc -l; openssl x509 < f.c"),
]

OTHERS = [
    ("zsh", "zsh", "zsh -fc 'zmodload zsh/zpty; a=(*(.)); print -l $a; print $(( 2 ** 10 )); coproc cat; print -p x; read -p y; print $y; =ls d'"),
    ("busybox", "busybox", "busybox sh -c 'ls d; echo a | busybox sed s/a/b/; exit 4'"),
    ("gawk", "gawk", "gawk 'BEGIN {\"date -u -d @0\" | getline d; print d; cmd=\"sort\"; print \"b\\na\" |& cmd; close(cmd,\"to\"); while ((cmd |& getline l)>0) print l; exit 2}'"),
    ("gnupg", "gpg", "export GNUPGHOME=$PWD/h; mkdir -m700 h; gpg --batch -q --passphrase '' --quick-gen-key a@b rsa1024 sign 2>/dev/null; gpg --batch -q --sign f.c && gpg --batch -q --verify f.c.gpg 2>&1 | grep -c Good; gpgconf --kill all"),
    ("rsync", "rsync", "rsync -a d/ e; rsync -ai d/ e; rsync -a --exclude=a --delete-excluded d/ e; ls e; rsync /no/such x"),
    ("ruby", "ruby", "ruby -e 'puts [3,1].sort.inspect; p fork { exit 3 }.class; Process.wait; p $?.exitstatus; p IO.popen(\"cat\",\"r+\") { |i| i.puts 1; i.close_write; i.read }; Thread.new { puts :t }.join; abort \"x\"'"),
    ("lua", "lua5.4", "lua5.4 -e 'print(#arg, string.rep(\"x\", 5)); local f = io.popen(\"echo hi; exit 3\"); print(f:read(\"a\")); print(f:close()); os.exit(6)'"),
    ("php", "php", "php -r 'echo json_encode([1,\"a\"=>2]), \"\\n\"; $p=proc_open(\"cat\",[[\"pipe\",\"r\"],[\"pipe\",\"w\"]],$q); fwrite($q[0],\"x\\n\"); fclose($q[0]); echo stream_get_contents($q[1]); exit(9);'"),
    ("node", "node", "node -e 'const c=require(\"child_process\"); console.log(c.execSync(\"echo hi\").toString(), c.spawnSync(\"sh\",[\"-c\",\"exit 3\"]).status); new (require(\"worker_threads\").Worker)(\"console.log(7)\",{eval:true}).on(\"exit\",()=>{console.error(\"e\"); process.exit(4)})'"),
    ("tcl", "tclsh", "echo 'puts [exec sort << \"b\\na\"]; puts [expr 2**70]; catch {exec false} e; puts $e; after 5 {set x 1}; vwait x; exit 3' | tclsh"),
    ("vim", "vim.tiny", "vim.tiny -es -u NONE -c '%s/word/W/' -c 'wq! out' table.txt; md5sum out; vim.tiny -es -u NONE -c 'cq 5'"),
    ("emacs", "emacs", "emacs -Q --batch --eval '(progn (princ (shell-command-to-string \"echo sub\")) (message \"%s\" (* 6 7)) (kill-emacs 3))'"),
    ("imagemagick", "convert", "convert in.ppm -resize 200% -colorspace Gray txt:- | md5sum; convert in.ppm -strip o.png; identify -format '%wx%h %m\\n' o.png; convert /no/such x.png"),
    ("ffmpeg", "ffmpeg", "ffmpeg -v error -f lavfi -i testsrc=d=1:s=64x64 -f lavfi -i sine=d=1 -bitexact -c:v mpeg4 -threads 2 -c:a aac o.mkv; ffmpeg -v error -i o.mkv -f framemd5 - | md5sum; ffprobe -v error -show_entries stream=codec_name o.mkv; ffmpeg -v error -i f.c x.mkv"),
    ("graphviz", "dot", "echo 'digraph { a -> b -> c; a -> c }' | dot -Tsvg | md5sum; echo 'digraph {' | dot -Tsvg"),
    ("ghostscript", "gs", "echo '%!PS\n/Helvetica findfont 20 scalefont setfont 50 50 moveto (x) show showpage' > i.ps; gs -q -dNOPAUSE -dBATCH -sDEVICE=pnggray -r20 -sOutputFile=o.png i.ps; md5sum o.png; echo 'nothing' | gs -q -dNODISPLAY -"),
    ("redis", "redis-server", "redis-server --port 0 --unixsocket $PWD/s --daemonize yes --save '' --logfile log > /dev/null; for i in $(seq 50); do [ -S s ] && break; sleep 0.1; done; redis-cli -s s set a 1; redis-cli -s s incr a; redis-cli -s s eval 'return 7' 0; redis-cli -s s shutdown nosave; sleep 0.3; ls s; rm -f log"),
    ("nginx", "nginx", "nginx -t -p $PWD -c /etc/nginx/nginx.conf; echo 'nonsense;' > n.conf; nginx -t -p $PWD -c $PWD/n.conf 2>&1 | grep -c emerg; rm -rf n.conf"),
    ("java", "java", "printf 'public class F { public static void main(String[] a) throws Exception { var t = new Thread(() -> System.out.println(7)); t.start(); t.join(); System.out.println(new ProcessBuilder(\"true\").start().waitFor()); System.gc(); Runtime.getRuntime().addShutdownHook(new Thread(() -> System.err.println(\"h\"))); System.exit(3); } }' > F.java; java -Xmx64m F.java"),
    ("strace", "strace", "strace -f -qq -e trace=openat,execve -o log sh -c 'cat f.c; true' | md5sum; grep -c f.c log; rm log; strace -qq -e trace=none -e signal=none sh -c 'exit 3'"),
    ("gdb", "gdb gcc", "gcc -g f.c -o f; gdb -q -batch -ex 'break f if n == 1' -ex run -ex bt -ex 'info break' -ex kill ./f 2>&1 | grep -c '^#'"),
    ("valgrind", "valgrind gcc", "gcc -g f.c -o f; valgrind -q --error-exitcode=9 --leak-check=full ./f; echo $?; valgrind -q --tool=helgrind ./f"),
    ("postgresql", "initdb setpriv", "mkdir p; chmod 777 . p; chown nobody p; P=\"setpriv --reuid 65534 --clear-groups\"; PATH=$PATH:$(echo /usr/lib/postgresql/*/bin); I=\"$P initdb -D $PWD/p/d --no-sync -A trust -U me\"; $I | grep -c ok; $P pg_ctl -w -D p/d -o \"-k $PWD/p -h ''\" -l p/log start | tail -1; psql -h $PWD/p -U me -Atc 'select sum(i) from generate_series(1,10) i' postgres; psql -h $PWD/p -U me -c 'select nothing' postgres; $P pg_ctl -m fast -D p/d stop | tail -1; rm -rf p"),
    ("xml tools", "xmllint xsltproc", "xmllint --xpath 'count(//i)' in.xml; xmllint --format in.xml; xmllint f.c; echo '<x:stylesheet version=\"1.0\" xmlns:x=\"http://www.w3.org/1999/XSL/Transform\"><x:output method=\"text\"/></x:stylesheet>' | xsltproc - in.xml"),
    ("pandoc", "pandoc", "pandoc in.md; pandoc -t plain in.md; pandoc -f nothing in.md"),
    ("archivers", "zip unzip cpio bzip2 lz4 file", "zip -qX o.zip d/a f.c; unzip -l o.zip | tail -1; unzip -p o.zip f.c | md5sum; find d | sort | cpio -oH newc --reproducible 2>/dev/null | cpio -it; bzip2 < f.c | bunzip2 | md5sum; lz4 -q < f.c | lz4 -dq | md5sum; file -b f.c in.json; bzip2 -d < f.c"),
    ("m4, bison, flex", "m4 bison flex gcc", "echo 'define(x, `$1$1')x(a) syscmd(echo b) eval(2+2)' | m4; printf '%%%%\\ns: ;\\n%%%%\\n' > g.y; bison g.y -o g.c && wc -l < g.c; printf '%%%%\\na putchar(98);\\n%%%%\\nint yywrap(void) { return 1; } int main(void) { return yylex(); }\\n' > l.l; flex l.l && gcc -w lex.yy.c -o l && echo aXa | ./l"),
    ("patch, diff, ed", "patch diff ed", "sed s/n/m/ f.c > g.c; diff -u --label a --label b f.c g.c > p; echo $?; patch -s f.c p && cmp f.c g.c; printf '1p\\nq\\n' | ed -s f.c; patch -s f.c p < /dev/null; rm -f f.c.*"),
    ("socat", "socat", "socat -u exec:'echo hi' stdout; (sleep 0.3; echo one | socat - unix:$PWD/s) & socat unix-listen:$PWD/s exec:'tr a-z A-Z',pty,raw,echo=0 & wait; socat - exec:false"),
    ("curl", "curl python3", "echo hi | curl -s file://$PWD/f.c | md5sum; touch l; python3 -m http.server -b 127.0.0.1 0 > l 2>&1 & for i in $(seq 50); do p=$(sed -n 's/.*port \\([0-9]*\\).*/\\1/p' l); [ \"$p\" ] && break; sleep 0.1; done; curl -s http://127.0.0.1:$p/f.c | md5sum; kill $!; wait $!; echo $?; rm l; curl -sS http://127.0.0.1:1/ | wc -c"),
    ("go", "go", "export HOME=$PWD GOFLAGS=-mod=mod GOCACHE=$(mktemp -d) CGO_ENABLED=1; printf 'package main\\n/*\\n#include <stdlib.h>\\nint two(void) { return abs(-2); }\\n*/\\nimport \"C\"\\nimport (\"fmt\"; \"os\"; \"os/exec\")\\nfunc main() { c := make(chan int); go func() { c <- int(C.two()) }(); o, _ := exec.Command(\"echo\", \"hi\").Output(); fmt.Println(<-c, string(o)); os.Exit(3) }\\n' > m.go; go build -o m m.go; ./m; echo $?; rm -rf go m .config"),
    ("nasm", "nasm", "printf 'section .text\\nglobal _start\\n_start: mov eax, 60\\nmov edi, 42\\nsyscall\\n' > a.s; nasm -felf64 a.s -o a.o && ld a.o -o a && ./a; echo $?; echo bad | nasm -felf64 -o b.o /dev/stdin"),
    ("guile", "guile", "GUILE_AUTO_COMPILE=0 guile -c '(use-modules (ice-9 popen) (ice-9 threads)) (display (join-thread (call-with-new-thread (lambda () (expt 2 70))))) (newline) (display (status:exit-val (system* \"sh\" \"-c\" \"exit 3\"))) (exit 5)'"),
    ("sbcl", "sbcl", "sbcl --noinform --no-userinit --eval '(progn (gc :full t) (print (expt 3 50)) (print (handler-case (/ 1 (read-from-string \"0\")) (error () :e))) (terpri) (sb-ext:exit :code 4))'"),
    ("ocaml", "ocaml", "echo 'let () = print_int (List.fold_left (+) 0 [1;2;3]); print_newline (); exit (Sys.command \"exit 3\")' > a.ml; ocaml a.ml; echo $?; ocamlc a.ml -o a 2>/dev/null; ./a"),
    ("erlang", "erl", "HOME=$PWD erl -noshell -eval 'P=self(), spawn(fun() -> P ! 7 end), receive X -> io:format(\"~p~n\",[X]) end, io:format(\"~s\",[os:cmd(\"echo hi\")]), halt(3).'"),
    ("documents", "pdftotext qpdf lynx", "echo '%!PS\n/Helvetica findfont 20 scalefont setfont 50 50 moveto (hello) show showpage' > i.ps; gs -q -dNOPAUSE -dBATCH -sDEVICE=pdfwrite -sOutputFile=o.pdf i.ps; pdftotext o.pdf -; qpdf --check o.pdf | tail -1; qpdf --check f.c 2>&1 | wc -l; printf '<h1>x</h1><p>y' > i.html; lynx -dump i.html; rm o.pdf"),
    ("sox", "sox", "sox -n -r 8000 -b 16 o.wav synth 0.1 sine 440; sox o.wav -n stat 2>&1 | md5sum; soxi -s o.wav; sox f.c x.wav"),
    ("samba", "testparm", "printf '[global]\\nworkgroup = X\\n[a]\\npath = /tmp\\n' > s.conf; testparm -s s.conf 2>/dev/null; testparm -s /no/such 2>&1 | tail -1"),
    ("file systems", "mksquashfs mke2fs", "mksquashfs d o.sq -quiet -no-progress -all-time 0 -mkfs-time 0 -processors 2 > /dev/null; unsquashfs -ll o.sq 2>/dev/null | wc -l; truncate -s 4M o.ext; mke2fs -q -t ext4 -U clear -d d o.ext; debugfs -R 'ls -p /' o.ext 2>/dev/null | wc -l; e2fsck -fn o.ext > /dev/null 2>&1; echo $?; rm o.ext o.sq"),
    ("attributes", "setfacl", "setfacl -m u:nobody:r f.c; getfacl -c f.c; setfattr -n user.x -v 1 f.c; getfattr -d f.c; chattr +i /no/such"),
    ("subversion", "svn", "export HOME=$PWD; svnadmin create r; svn mkdir -q -m x file://$PWD/r/a; svn co -q file://$PWD/r w; cp f.c w/a; cd w; svn add -q a/f.c; svn ci -qm y; svn log -q file://$PWD/../r | grep -c '^r'; svn info nothing 2>&1 | tail -1; cd ..; rm -rf r w .subversion"),
    ("mercurial", "hg", "export HOME=$PWD HGUSER=a; hg init h; cd h; cp ../f.c .; hg add -q; hg ci -qm x -d '0 0'; hg log -T '{node}\\n'; hg verify -q; hg cat nothing"),
    ("expect", "expect", "expect -c 'spawn -noecho sh -c \"read x; echo got \\$x; exit 3\"; send \"hi\\r\"; expect got; expect eof; puts [lindex [wait] 3]'"),
    ("terminals", "script", "script -qec 'stty size; tty > /dev/null; echo hi; exit 3' /dev/null < /dev/null; echo $?"),
    ("jobs and limits", "timeout", "timeout 0.2 sleep 9; echo $?; nohup sh -c 'echo x' 2>/dev/null; nice -n 5 nice; env -i A=1 env; setsid sh -c 'echo $$ > /dev/null; exit 3'; echo $?; stdbuf -o0 echo y; chroot / /bin/true; flock l sh -c 'flock -n l true; echo $?'; prlimit --nofile=50 sh -c 'ulimit -n'; unshare -r id -u; rm -f nohup.out; (ulimit -v 200000; ls d)"),
    ("daemons", "python3", "python3 -c 'import os,sys,time\nif os.fork(): sys.exit(3)\nos.setsid()\n[os.close(n) for n in range(3)]\ntime.sleep(0.2); open(\"o\",\"w\").write(str(os.open(\"/dev/null\",0)))'; echo $?; sleep 0.5; cat o"),
    ("ld.so", "ldd", "ldd /bin/true | sed 's/ (0x.*//' | grep -v -e lazyguard -e vdso -e libgcc_s; /lib*/ld-linux*.so.* --version | head -1; LD_BIND_NOW=1 true; LD_DEBUG=files true 2>&1 | grep -c 'calling init: /lib.*libc'"),
    ("tmux", "tmux", "tmux -L $$ -f /dev/null new -d 'echo in > o; sleep 0.2; exit 3'; sleep 1; cat o; tmux -L $$ ls 2>&1 | cut -c1-2"),
]
