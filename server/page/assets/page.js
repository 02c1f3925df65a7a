"use strict";
// The page's own part: who is signed in, and asking the server again and again.
(() => {
  const KEY = "steprelay-key";
  const POLL_MS = 1000, HIDDEN_POLL_MS = 5000;
  const $ = (id) => document.getElementById(id);
  const named = location.pathname.startsWith("/a/") ? location.pathname.slice(3) : null;
  const TOOL_LOOKS = 10;
  let looks = 0, blocks = new Map(), lines = "", scrolled = false, timer = null, unclassed = null;

  async function ask(path, body) {
    const headers = { "x-steprelay-key": localStorage.getItem(KEY) ?? "" };
    const sent = body === undefined ? { headers } : { method: "POST", body: JSON.stringify(body),
      headers: { ...headers, "content-type": "application/json" } };
    const answer = await fetch(path, { ...sent, credentials: "same-origin", cache: "no-store", redirect: "error" });
    const data = await answer.json();
    if (!answer.ok) throw Object.assign(new Error(data.error ?? `refused (${answer.status})`), { status: answer.status, data });
    return data;
  }

  const does = {
    minSeconds: 0,
    asksCodes: false,
    async decide(action, choice, { note, content, code, grants }) {
      const { action_id, digest } = action;
      const takesPasskey = action.level === "passkey" && !action.choices.find((each) => each.name === choice).no;
      const passkey = takesPasskey
        ? await steprelayPasskeys.sign(await ask("/api/passkeys/approve", { action_id, choice, digest })) : null;
      const told = await ask("/api/decide", { action_id, choice, digest, note: note || null, content, code, grants, passkey });
      soon();
      return told.message;
    },
    async confirm(tool, name, code) {
      const told = await ask("/api/classes", { tool: tool.tool, pin: tool.pin, class: name, code });
      await lookAtTools();
      return told.message;
    },
    async edit(action, text) {
      const { action_id, digest } = action;
      const told = await ask("/api/edit", { action_id, digest, arguments: text });
      soon();
      return told.message;
    },
  };

  function draw(state) {
    Object.assign(does, { minSeconds: state.min_seconds, asksCodes: state.asks_codes });
    const now = new Map(state.runs.map((run) => [run.run_id, steprelayView.runBlock(run, does, blocks.get(run.run_id))]));
    for (const [id, block] of blocks) if (!now.has(id)) block.remove();
    for (const block of now.values()) if (!block.isConnected) $("runs").append(block);
    blocks = now;
    const waiting = state.runs.reduce((sum, run) => sum + run.actions.length, 0);
    $("headline").textContent = waiting === 0 ? "Nothing waits for a decision."
      : `${waiting} ${waiting === 1 ? "action waits" : "actions wait"} for a decision.`;
    document.title = waiting ? `(${waiting}) steprelay` : "steprelay";
    if (JSON.stringify(state.recent) !== lines) {
      lines = JSON.stringify(state.recent);
      $("lines").replaceChildren(steprelayView.recentRuns(state.recent));
    }
    $("recent").hidden = state.recent.length === 0;
    if (named && !scrolled) {
      scrolled = true;
      const card = $(named);
      if (card) { card.classList.add("named"); card.scrollIntoView({ block: "start" }); }
      else notice(`Action ${named} does not wait any more.`);
    }
  }

  const keys = steprelayPasskeys.section({
    ask,
    get asksCodes() { return does.asksCodes; },
    changed: () => { keys.draw().catch((error) => notice(error.message)); },
  });

  async function lookAtTools() {
    const { tools, classes } = await ask("/api/tools");
    unclassed = steprelayView.toolsBlock(tools, classes, does, unclassed);
    if (!unclassed.isConnected) $("tools").replaceChildren(unclassed);
    $("tools").hidden = tools.length === 0;
  }

  function notice(text) { $("notice").textContent = text; $("notice").hidden = text === ""; }

  function signedIn(yes, data) {
    $("leave").hidden = !yes;
    $("sign-in").hidden = yes;
    if (yes) return;
    for (const block of blocks.values()) block.remove();
    blocks = new Map();
    $("recent").hidden = $("tools").hidden = $("passkeys").hidden = true;
    looks = 0;
    $("headline").textContent = "";
    $("how-in").textContent = data.pin ? "Type your PIN to see and decide what waits."
      : "To see and decide what waits, type `steprelay ui` in a terminal. It opens this page with you signed in.";
    $("pin-row").hidden = $("enter").hidden = !data.pin;
  }

  async function look() {
    clearTimeout(timer);
    try {
      const state = await ask("/api/state");
      signedIn(true);
      draw(state);
      if (looks++ % TOOL_LOOKS === 0) {
        await lookAtTools();
        await keys.draw();
      }
    } catch (error) {
      if (error.status === 401) return signedIn(false, error.data);
      $("headline").textContent = error.status ? error.message : "steprelay does not answer; trying again.";
    }
    timer = setTimeout(look, document.hidden ? HIDDEN_POLL_MS : POLL_MS);
    return undefined;
  }

  function soon() { clearTimeout(timer); timer = setTimeout(look, 150); }

  async function enter(offer) {
    try {
      const begun = await ask("/api/session", offer);
      localStorage.setItem(KEY, begun.key);
      notice("");
    } catch (error) { notice(error.message); }
    await look();
  }

  $("sign-in").addEventListener("submit", (event) => {
    event.preventDefault();
    const pin = $("pin").value;
    $("pin").value = "";
    enter({ pin });
  });
  $("leave").addEventListener("click", async () => {
    try { await ask("/api/session/end", {}); } catch (error) { notice(error.message); }
    localStorage.removeItem(KEY);
    await look();
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) soon(); });

  function begin() {
    const code = new URLSearchParams(location.hash.slice(1)).get("code");
    // Out of the address bar and the history before anything else.
    if (location.hash) history.replaceState(null, "", location.pathname);
    return code ? enter({ code }) : look();
  }

  $("keys").append(keys.box);
  // An address with another code, in the tab that has the page already, loads nothing anew.
  addEventListener("hashchange", begin);
  begin();
})();
