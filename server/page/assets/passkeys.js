"use strict";
// Passkeys: what the browser is to make or have signed, and the list of those that are registered.
const steprelayPasskeys = (() => {
  const { el, isPressed } = steprelayView;

  function bytes(text) {
    const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    return Uint8Array.from(plain, (letter) => letter.charCodeAt(0));
  }

  function text(buffer) {
    const plain = String.fromCharCode(...new Uint8Array(buffer));
    return btoa(plain).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  }

  const named = (list) => (list ?? []).map((each) => ({ ...each, id: bytes(each.id) }));

  // Browsers word what went wrong, or that a person broke off, each in their own way.
  async function browser(work) {
    if (!navigator.credentials) throw new Error("this browser has no passkeys at this address");
    try { return await work(); } catch (error) { throw new Error(`nothing was signed: ${error.message}`); }
  }

  async function sign(options) {
    const publicKey = { ...options, challenge: bytes(options.challenge), allowCredentials: named(options.allowCredentials) };
    const made = await browser(() => navigator.credentials.get({ publicKey }));
    const { clientDataJSON, authenticatorData, signature } = made.response;
    return { id: made.id, rawId: text(made.rawId), type: made.type, response: { clientDataJSON: text(clientDataJSON),
      authenticatorData: text(authenticatorData), signature: text(signature) } };
  }

  async function make(options) {
    const user = { ...options.user, id: bytes(options.user.id) };
    const publicKey = { ...options, user, challenge: bytes(options.challenge),
      excludeCredentials: named(options.excludeCredentials) };
    const made = await browser(() => navigator.credentials.create({ publicKey }));
    const { clientDataJSON, attestationObject } = made.response;
    return { id: made.id, rawId: text(made.rawId), type: made.type,
      response: { clientDataJSON: text(clientDataJSON), attestationObject: text(attestationObject) } };
  }

  // `page.ask(path, body)` asks the server, `page.changed()` is called after a change.
  function section(page) {
    const said = el("p", { class: "muted", role: "status" });
    const missing = el("p", { class: "muted" });
    const list = el("div");
    const name = el("input", { type: "text", maxlength: "60", autocomplete: "off", class: "passkey-name" });
    const pin = el("input", { type: "password", maxlength: "200", autocomplete: "off", class: "passkey-pin" });
    const code = el("input", { type: "text", inputmode: "numeric", maxlength: "6", autocomplete: "one-time-code" });
    const pinRow = el("label", {}, "PIN ", pin), codeRow = el("label", {}, "Code of the authenticator app ", code);
    const add = el("button", { type: "button", class: "add-passkey", text: "Add a passkey" });
    const fields = el("div", { class: "more" }, el("label", {}, "Name of a new one, such as the device it is on ", name),
      pinRow, codeRow);
    const box = el("div", {}, missing, list, fields, el("div", { class: "buttons" }, add), said);
    let state = null, drawn = "", busy = false;

    // Who changes the list shows once more who they are.
    async function proof(removes) {
      if (state.proof === "pin") return { pin: pin.value, code: code.value };
      if (state.proof === null) return {};
      return { passkey: await sign(await page.ask("/api/passkeys/sign", { removes })) };
    }

    async function carryOut(event, work) {
      if (busy || !isPressed(event)) return;
      busy = true;
      said.textContent = "…";
      try { said.textContent = await work(); } catch (error) { said.textContent = error.message; }
      pin.value = code.value = "";
      busy = false;
      page.changed();
    }

    add.addEventListener("click", (event) => carryOut(event, async () => {
      const given = name.value.trim() || "passkey";
      const options = await page.ask("/api/passkeys/begin", { name: given, ...await proof(null) });
      const told = await page.ask("/api/passkeys/add", { name: given, credential: await make(options) });
      name.value = "";
      return told.message;
    }));

    function row(passkey) {
      const remove = el("button", { type: "button", class: "remove-passkey", text: "Remove" });
      remove.addEventListener("click", (event) => carryOut(event, async () => {
        const told = await page.ask("/api/passkeys/remove", { id: passkey.id, ...await proof(passkey.id) });
        return told.message;
      }));
      const since = `added ${new Date(passkey.added_at).toLocaleDateString()}`;
      return el("tr", {}, el("td", { text: passkey.name }), el("td", { text: since }), el("td", {}, remove));
    }

    async function draw() {
      state = await page.ask("/api/passkeys");
      document.getElementById("passkeys").hidden = !state.installed && state.passkeys.length === 0;
      missing.textContent = state.installed ? "" : state.missing;
      fields.hidden = add.hidden = !state.installed;
      pinRow.hidden = state.proof !== "pin";
      codeRow.hidden = state.proof !== "pin" || !page.asksCodes;
      if (JSON.stringify(state.passkeys) === drawn) return;
      drawn = JSON.stringify(state.passkeys);
      list.replaceChildren(el("table", { class: "lines" }, el("tbody", {}, ...state.passkeys.map(row))));
    }

    return { box, draw };
  }

  return { sign, make, section };
})();
