// Decisions on their way to the server. They are kept in the browser until the server has said that they are written,
// and sent again until then: whatever happens to the tab, the server or the line between, none is lost, and none counts
// twice, since each has a key. Other windows, and later visits, send what they find.

const SOON_MS = 1000, LATE_MS = 15000, MAX_DECISIONS = 100;

// What visits before have left at places that begin so; it is theirs no longer.
function left(start) {
  const found = [];
  try {
    for (const place of Object.keys(localStorage).filter((name) => name.startsWith(start))) {
      found.push(...JSON.parse(localStorage.getItem(place)));
      localStorage.removeItem(place);
    }
  } catch {
    // a browser that keeps nothing, or what no window of ours has written
  }
  return found;
}

// The answer of the server's desk; throws what stands in the way, as words for people.
async function ask(address, what, about, options = {}) {
  const asked = { method: "POST", body: JSON.stringify(about), ...options };
  const answer = await fetch(`${address}/${what}`, asked).catch(() => {
    throw new Error("The server does not respond.");
  });
  if (!answer.ok) throw new Error((await answer.text()).trim().slice(0, 300));
  return answer;
}

class Outbox {
  // address: of the server's desk. tell(news): called with every answer, and with what stands in the way.
  constructor(address, held, tell) {
    Object.assign(this, { address, held, tell, wait: SOON_MS, isSending: false });
    this.place = `lps-review ${address} ${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
    this.waiting = left(`lps-review ${address} `);
    this.keep();
    this.send();
  }

  add(decision) {
    this.waiting.push(decision);
    this.keep();
    this.send();
  }

  keep() {
    try {
      if (this.waiting.length) localStorage.setItem(this.place, JSON.stringify(this.waiting));
      else localStorage.removeItem(this.place);
    } catch {
      // a browser that keeps nothing: the server hears of every decision at once all the same
    }
  }

  async send() {
    clearTimeout(this.timer);
    if (this.isSending || !this.waiting.length) return;
    this.isSending = true;
    const part = this.waiting.slice(0, MAX_DECISIONS);
    try {
      const about = { decisions: part, held: this.held() }; // less than the 64 KiB that outlive a tab
      const said = await (await ask(this.address, "decisions", about, { keepalive: true })).json();
      const over = new Set([...said.done, ...Object.keys(said.refused)]);
      this.waiting = this.waiting.filter((decision) => !over.has(decision.key));
      this.keep();
      this.wait = SOON_MS;
      this.tell({ ...said, part });
    } catch (error) {
      this.tell({ trouble: error.message });
      this.timer = setTimeout(() => this.send(), this.wait);
      this.wait = Math.min(2 * this.wait, LATE_MS);
      return;
    } finally {
      this.isSending = false;
    }
    this.send();
  }

  stop() {
    clearTimeout(this.timer);
  }
}
