// The panel's own part: talking with the host that frames it, and asking the server through it again and again.
// It offers the model no tool and says nothing into the conversation.
(() => {
  const KEY = "steprelay/panel";
  const POLL_MS = 1000, HIDDEN_POLL_MS = 5000;
  const $ = (id) => document.getElementById(id);
  const answers = new Map();
  let requests = 0, shown = null, block = null, tools = null, timer = null, canCall = false;

  function post(message) { parent.postMessage({ jsonrpc: "2.0", ...message }, "*"); }

  function ask(method, params) {
    const id = ++requests;
    post({ id, method, params });
    return new Promise((resolve, reject) => answers.set(id, { resolve, reject }));
  }

  addEventListener("message", (event) => {
    const message = event.data;
    if (event.source !== parent || message?.jsonrpc !== "2.0") return;
    if (message.method === undefined) {
      const waiting = answers.get(message.id);
      answers.delete(message.id);
      if (message.error) waiting?.reject(new Error(message.error.message));
      else waiting?.resolve(message.result);
    } else if (message.id === undefined) hears[message.method]?.(message.params ?? {});
    else answer(message);
  });

  function answer({ id, method }) {
    if (method === "ui/resource-teardown") { clearTimeout(timer); shown = null; }
    if (method === "ui/resource-teardown" || method === "ping") post({ id, result: {} });
    else post({ id, error: { code: -32601, message: "the panel has no such method" } });
  }

  const hears = {
    "ui/notifications/tool-input": ({ arguments: given }) => { if (given?.goal) notice(given.goal); },
    "ui/notifications/tool-result": take,
    "ui/notifications/tool-cancelled": () => { if (!shown) notice("The call was cancelled; its run goes on."); },
    "ui/notifications/host-context-changed": look,
  };

  function notice(text) {
    $("notice").textContent = text;
    $("notice").hidden = !text;
  }

  // The host's colours and fonts, so that the panel looks as its surroundings do.
  function look(context) {
    const root = document.documentElement.style;
    if (context?.theme === "dark" || context?.theme === "light") root.colorScheme = context.theme;
    for (const [name, value] of Object.entries(context?.styles?.variables ?? {})) {
      if (/^--(color|font)-[\w-]+$/.test(name) && value && !value.includes("url(")) root.setProperty(name, value);
    }
  }

  // The result of the tool call that the panel was opened for.
  function take(result) {
    const run = result.structuredContent, key = result._meta?.[KEY]?.key;
    if (result.isError || !run?.run_id) return notice(result.content?.find((part) => part.text)?.text ?? "No run.");
    if (!key || !canCall) {
      const elsewhere = run.actions.map((action) => `${action.question}\n${action.how}`);
      return notice([run.message, "This host does not let the panel ask further.", ...elsewhere].join("\n\n"));
    }
    shown = { run_id: run.run_id, view_key: key };
    return poll();
  }

  async function call(name, given) {
    const result = await ask("tools/call", { name, arguments: { ...shown, ...given } });
    if (result.isError) throw new Error(result.content?.find((part) => part.text)?.text ?? "refused");
    return result.structuredContent;
  }

  const does = {
    minSeconds: 0,
    asksCodes: false,
    async decide(action, choice, { note, content, code }) {
      const { action_id, digest } = action;
      const told = await call("panel_decide", { action_id, choice, digest, note: note || null, content, code });
      poll();
      return told.message;
    },
    async edit(action, text) {
      const { action_id, digest } = action;
      const told = await call("panel_edit", { action_id, digest, arguments: text });
      poll();
      return told.message;
    },
    async confirm(tool, name, code) {
      const told = await call("panel_class", { tool: tool.tool, pin: tool.pin, tool_class: name, code });
      poll();
      return told.message;
    },
  };

  function draw(state) {
    Object.assign(does, { minSeconds: state.min_seconds, asksCodes: state.asks_codes });
    notice(state.run.actions.length ? "" : state.message);
    block = steprelayView.runBlock(state.run, does, block);
    tools = steprelayView.toolsBlock(state.tools, state.classes, does, tools);
    if (!block.isConnected) $("run").replaceChildren(block, tools);
    $("elsewhere").textContent = state.elsewhere ?? "";
    $("elsewhere").hidden = state.elsewhere === null;
  }

  async function poll() {
    clearTimeout(timer);
    const asked = shown;
    try {
      const state = await call("panel_state", {});
      if (shown !== asked) return;
      draw(state);
      if (state.run.stop_reason !== null) return;
    } catch (error) {
      if (shown === asked) notice(error.message);
    }
    clearTimeout(timer);
    if (shown === asked && asked) timer = setTimeout(poll, document.hidden ? HIDDEN_POLL_MS : POLL_MS);
  }

  new ResizeObserver(() => post({ method: "ui/notifications/size-changed", params: {
    width: document.documentElement.scrollWidth, height: Math.ceil(document.body.getBoundingClientRect().height),
  } })).observe(document.body);

  (async () => {
    const told = await ask("ui/initialize", { protocolVersion: "2026-01-26", appCapabilities: {},
      appInfo: { name: "steprelay-panel", version: "1" } });
    canCall = Boolean(told.hostCapabilities?.serverTools);
    look(told.hostContext);
    post({ method: "ui/notifications/initialized", params: {} });
  })();
})();
