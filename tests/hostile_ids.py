"""More than sixty texts that are not ids of runs and that some program could mistake for something else."""

GOOD = "20261120-231502-digits-lps-s0-k3f9qa"
IDS = [
    "../../etc/passwd", "..", ".", "/", "//", "/etc/passwd", "/etc", "~", "~root", "./", "...", "....//....//etc",
    "..\\..\\windows\\win.ini", "C:\\boot.ini", "\\\\host\\share", "//host/share", "file:///etc/passwd",
    "http://evil.example/x", "https://127.0.0.1:8501/", "javascript:alert(1)", "data:text/html,x", "ftp://x",
    "%2e%2e%2fetc%2fpasswd", "..%2f..%2fetc", "%252e%252e%252f", "..%c0%af..%c0%afetc", "%00", "a%0ab",
    "; rm -rf .", "$(touch canary)", "`touch canary`", "| touch canary", "&& touch canary", "--help", "-rf", "-",
    "--runs=/etc", "*", "?", "[a-z]", "{a,b}", "$HOME", "${IFS}", "%s%s%n", "{0.__class__}", "{{7*7}}", "%(x)s",
    "' OR 1=1 --", "\"; DROP TABLE runs", "<script>window.canary=1</script>", "<img src=x onerror=canary()>",
    "=1+1", "@SUM(1)", "\x00", "a\x00b", "\n", "\r\n", "\t", " ", "\u202e", "\u200b", "\ufeff", "\ud800", "\u0130",
    "CON", "NUL", "lock", ".slots", ".trash", ".incoming", ".sched.lock", "config.json", "a" * 300, "a" * 100_000,
    GOOD + "\n", GOOD + "/", GOOD + "/..", "../" + GOOD, "/" + GOOD, GOOD + "\x00", GOOD.upper(), GOOD[:-1] + "\u0660",
    GOOD.replace("2026", "\uff12\uff10\uff12\uff16"), GOOD + "/../../etc", GOOD + "#", GOOD + "?x", " " + GOOD,
]  # fmt: skip
assert len(set(IDS)) >= 60
