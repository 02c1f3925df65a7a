"use strict";
// Draws runs and actions as cards.py describes them. It knows no network: whoever uses it hands in what decides.
// All text is set as text, never as markup.
const steprelayView = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const WIDTH = 190, HEIGHT = 48, GAP_X = 36, GAP_Y = 12;
  const MARKS = { succeeded: "✔", partial: "◐", failed: "✘", refused: "⊘", skipped: "–", cancelled: "–", running: "▶",
    waiting: "‖", pending: "·" };
  // In a host's frame the press itself brings the focus.
  const FOCUS_MS = window === window.parent ? 350 : 0;
  let focusedAt = document.hasFocus() ? -FOCUS_MS : performance.now();
  addEventListener("focus", () => { focusedAt = performance.now(); });

  function el(tag, options = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(options)) {
      if (name === "text") made.textContent = value;
      else if (name === "class") made.className = value;
      else if (value !== null && value !== undefined) made.setAttribute(name, value);
    }
    made.append(...children.filter((child) => child !== null));
    return made;
  }

  // Whether a person pressed: neither a script's click, nor the click that only brought the window to the front.
  function isPressed(event) {
    const active = navigator.userActivation ? navigator.userActivation.isActive : true;
    return event.isTrusted && active && document.hasFocus() && performance.now() - focusedAt >= FOCUS_MS;
  }

  function cut(text, most) { return text.length <= most ? text : text.slice(0, most - 1) + "…"; }

  function planGraph(steps) {
    const byId = new Map(steps.map((step) => [step.id, step]));
    const levels = new Map();
    const levelOf = (step, above = new Set()) => {
      if (levels.has(step.id) || above.has(step.id)) return levels.get(step.id) ?? 0;
      const needs = step.needs.filter((id) => byId.has(id)).map((id) => byId.get(id));
      levels.set(step.id, Math.max(0, ...needs.map((need) => levelOf(need, new Set([...above, step.id])) + 1)));
      return levels.get(step.id);
    };
    const columns = [];
    for (const step of steps) (columns[levelOf(step)] ??= []).push(step);
    const places = new Map();
    columns.forEach((column, x) => column.forEach((step, y) => {
      places.set(step.id, [x * (WIDTH + GAP_X) + 2, y * (HEIGHT + GAP_Y) + 2]);
    }));
    const tallest = Math.max(1, ...columns.map((column) => column.length));
    const width = columns.length * (WIDTH + GAP_X) - GAP_X + 4;
    const height = tallest * (HEIGHT + GAP_Y);
    const svg = svgEl("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "plan", role: "img" });
    svg.append(svgEl("title", {}, `Plan with ${steps.length} steps`));
    for (const step of steps) {
      const [toX, toY] = places.get(step.id);
      for (const id of step.needs.filter((need) => places.has(need))) {
        const [fromX, fromY] = places.get(id);
        const [x, y, y2] = [fromX + WIDTH, fromY + HEIGHT / 2, toY + HEIGHT / 2];
        svg.append(svgEl("path", { d: `M${x} ${y}C${x + 18} ${y} ${toX - 18} ${y2} ${toX} ${y2}` }));
      }
    }
    for (const step of steps) {
      const [x, y] = places.get(step.id);
      const about = `${step.worker ?? step.kind} · ${step.status}`;
      svg.append(svgEl("g", { class: step.status, "data-step": step.id },
        svgEl("title", {}, `${step.id}: ${step.title} (${step.status}) ${step.summary}`),
        svgEl("rect", { x, y, width: WIDTH, height: HEIGHT - 2, rx: 7 }),
        svgEl("text", { x: x + 10, y: y + 20 }, `${MARKS[step.status] ?? "·"} ${cut(step.title || step.id, 24)}`),
        svgEl("text", { x: x + 10, y: y + 37, class: "small" }, cut(about, 30))));
    }
    return svg;
  }

  function svgEl(tag, attributes, ...children) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  function argumentRow(argument) {
    const head = el("th", { scope: "row" }, argument.name || "(whole)");
    if (argument.target) head.append(el("small", { text: "target" }));
    if (argument.changed) head.append(el("small", { class: "odd", text: argument.value === null ? "removed" : "changed" }));
    const cell = el("td");
    if (argument.before !== null) cell.append(el("pre", { class: "before", text: argument.before }));
    if (argument.value !== null) cell.append(el("pre", { text: argument.value, tabindex: "0" }));
    for (const from of argument.from) cell.append(el("small", { class: from.usual ? "" : "odd", text: from.text }));
    return el("tr", {}, head, cell);
  }

  // An input for a field of a server's form, and what it holds; undefined where nothing was filled in.
  function fieldInput(field) {
    if (field.kind === "choices") {
      const boxes = field.options.map((option) => [el("input", { type: "checkbox", value: option }), option]);
      const group = el("span", {}, ...boxes.map(([box, option]) => el("label", {}, box, ` ${option}`)));
      const chosen = () => boxes.filter(([box]) => box.checked).map(([, option]) => option);
      return [group, () => (chosen().length ? chosen() : undefined)];
    }
    if (field.kind === "choice" || field.kind === "boolean") {
      const options = field.kind === "boolean" ? ["yes", "no"] : field.options;
      const select = el("select", {}, el("option", { value: "", text: "" }));
      options.forEach((option, number) => select.append(el("option", { value: String(number + 1), text: option })));
      const chosen = () => options[Number(select.value) - 1];
      return [select, () => (field.kind === "boolean" && chosen() ? chosen() === "yes" : chosen())];
    }
    const input = el("input", { type: "text", autocomplete: "off" });
    if (field.kind === "text") return [input, () => input.value || undefined];
    const number = () => (input.value.trim() === "" ? undefined : Number(input.value));
    return [input, () => (Number.isNaN(number()) ? input.value : number())];
  }

  function formFields(fields) {
    const reads = [];
    const box = el("div", { class: "fields" });
    for (const field of fields) {
      const [input, read] = fieldInput(field);
      reads.push([field.name, read]);
      const takes = `${field.required ? "required" : "may be left open"}: ${field.takes}`;
      const secret = field.secret ? el("small", { class: "odd", text: "asks for a secret" }) : null;
      const tag = field.kind === "choices" ? "div" : "label";
      box.append(el(tag, {}, `${field.label} `, input, el("small", { text: takes }),
        field.words ? el("small", { text: `It writes: ${field.words}` }) : null, secret));
    }
    const content = () => Object.fromEntries(reads.map(([name, read]) => [name, read()]).filter(([, v]) => v !== undefined));
    return [box, content];
  }

  // What a card is drawn anew for; all else of an action stays as it is.
  function shownAs(action) { return [action.action_id, action.digest, ...action.told].join("\n"); }

  // The calls of a plan that a person may grant with their yes, and the steps of those that they ticked.
  function grantBoxes(grants) {
    const box = el("div", { class: "grants" });
    const boxes = [];
    if (grants.length) box.append(el("p", { class: "muted", text: "With the plan, let these calls go out once without a question:" }));
    for (const grant of grants) {
      const tick = el("input", { type: "checkbox", value: grant.step, ...(grant.why === null ? {} : { disabled: "" }) });
      boxes.push(tick);
      box.append(el("label", {}, tick, ` ${grant.step}: ${grant.tool}`,
        grant.why === null ? null : el("small", { class: "muted", text: ` will be asked: ${grant.why}` })));
      if (grant.why === null) box.append(el("pre", { text: grant.arguments.join("\n") }));
    }
    return [box, () => boxes.filter((tick) => tick.checked).map((tick) => tick.value)];
  }

  // `does.decide(action, choice, {note, content, code, grants})` and `does.edit(action, arguments)` give promises of a message.
  function actionCard(action, does) {
    const said = el("p", { class: "muted", role: "status" });
    const [fields, content] = formFields(action.fields);
    const [grants, granted] = grantBoxes(action.grants);
    const note = el("input", { type: "text", maxlength: "2000", autocomplete: "off" });
    const code = el("input", { type: "text", inputmode: "numeric", maxlength: "6", autocomplete: "one-time-code" });
    const buttons = el("div", { class: "buttons" });
    const card = el("article", { class: "action", id: action.action_id, "data-as": shownAs(action) },
      el("h3", {}, el("span", { class: `badge ${action.effect ?? action.kind}`, text: action.effect ?? action.kind }),
        action.title),
      el("ul", { class: "reasons" }, ...action.reasons.map((reason) => el("li", { text: reason }))),
      action.told.length ? el("p", { class: "told", text: action.told.join("\n") }) : null,
      el("table", { class: "arguments" }, el("tbody", {}, ...action.arguments.map(argumentRow))),
      fields, grants,
      el("div", { class: "more" },
        action.kind === "form" ? null : el("label", {}, "Note ", note),
        does.asksCodes ? el("label", {}, "Code of the authenticator app ", code) : null),
      buttons, said,
      el("p", { class: "facts", text: facts(action) }));

    let busy = false;
    async function carryOut(event, work) {
      if (busy || !isPressed(event)) return;
      busy = true;
      said.textContent = "…";
      try { said.textContent = await work(); } catch (error) { said.textContent = error.message; }
      busy = false;
    }
    const ready = [];
    for (const choice of action.choices) {
      const button = el("button", { type: "button", class: choice.no ? "no" : "yes", "data-choice": choice.name },
        choice.label);
      if (!choice.no) ready.push(button);
      button.addEventListener("click", (event) => carryOut(event, () => {
        const filled = choice.name === "submit" && action.fields.length ? content() : null;
        return does.decide(action, choice.name, { note: note.value, content: filled, code: code.value,
          grants: choice.name === "approve" ? granted() : [] });
      }));
      buttons.append(button);
    }
    if (action.editable !== null) addEditor(action, does, { buttons, card, carryOut, ready });
    liveAfter(ready, does.minSeconds, card);
    return card;
  }

  function addEditor(action, does, { buttons, card, carryOut, ready }) {
    const text = el("textarea", { spellcheck: "false", "aria-label": "Arguments as JSON" });
    const ask = el("button", { type: "button", class: "edit", text: "Ask again with these arguments" });
    const editor = el("div", { class: "editor", hidden: "" }, text, ask);
    const open = el("button", { type: "button", class: "open-editor", text: "Edit…" });
    text.value = action.editable;
    open.addEventListener("click", () => { editor.hidden = !editor.hidden; });
    ask.addEventListener("click", (event) => carryOut(event, () => does.edit(action, text.value)));
    ready.push(ask);
    buttons.append(open);
    card.insertBefore(editor, buttons.nextSibling);
  }

  // A yes can be pressed once the card has been in sight for long enough.
  function liveAfter(buttons, seconds, card) {
    for (const button of buttons) button.disabled = true;
    const from = performance.now();
    const look = () => {
      if (!card.isConnected && performance.now() - from > 5000) return;
      if (document.visibilityState === "visible" && card.isConnected && performance.now() - from >= 1000 * seconds) {
        for (const button of buttons) button.disabled = false;
      } else setTimeout(look, 100);
    };
    look();
  }

  function facts(action) {
    const until = action.expires_at === null ? null : `open until ${new Date(action.expires_at).toLocaleString()}`;
    const level = `needs a yes of level ${action.level}`;
    const parts = [action.step && `step ${action.step}`, action.action_id, action.digest.slice(0, 8), level, until];
    return parts.filter(Boolean).join(" · ");
  }

  // A run with its plan and its waiting actions. Called again it draws what is new, and leaves what somebody fills in.
  function runBlock(run, does, block = null) {
    block ??= el("section", { class: "run", id: run.run_id },
      el("h2"), el("p", { class: "facts" }), el("div", { class: "graph" }), el("div", { class: "actions" }));
    const [goal, about, graph, actions] = block.children;
    goal.textContent = run.goal;
    about.textContent = [run.status.replaceAll("_", " "), run.usage, run.run_id].join(" · ");
    const plan = JSON.stringify(run.steps);
    if (graph.dataset.plan !== plan) {
      graph.dataset.plan = plan;
      graph.replaceChildren(...(run.steps.length ? [planGraph(run.steps)] : []));
    }
    const there = new Map([...actions.children].map((card) => [card.dataset.as, card]));
    settle(actions, run.actions.map((a) => there.get(shownAs(a)) ?? actionCard(a, does)));
    return block;
  }

  // Have a box hold these cards, without moving one that is in its place: it may have the focus.
  function settle(box, cards) {
    for (const card of [...box.children]) if (!cards.includes(card)) card.remove();
    cards.forEach((card, number) => {
      if (box.children[number] !== card) box.insertBefore(card, box.children[number] ?? null);
    });
  }

  function recentRuns(lines) {
    const row = (line) => el("tr", {}, el("td", { text: line.status.replaceAll("_", " ") }), el("td", { text: line.goal }),
      el("td", { text: line.needs === "person" ? "waits for a person" : line.needs ?? line.stop_reason ?? "" }),
      el("td", { text: `$${line.cost_usd.toFixed(4)}` }), el("td", { text: line.run_id }));
    return el("table", { class: "lines" }, el("tbody", {}, ...lines.map(row)));
  }

  const CLASS_WORDS = {
    read: "read: looks at data of yours, changes nothing",
    egress: "egress: reads what is open to the world, such as the web",
    write: "write: changes something that can be changed back",
    destructive: "destructive: may destroy something, or cannot be undone",
    unknown: "unknown: ask me each time",
  };

  // All tools that are to be classed. Called again it draws what is new, and leaves what somebody has chosen.
  function toolsBlock(tools, classes, does, block = null) {
    block ??= el("section", { class: "tools" }, el("h2", { text: "Tools that say nothing of themselves" }),
      el("p", { class: "muted", text: "Say once what each may do. Until then every call of it asks you." }), el("div"));
    const box = block.lastChild;
    const there = new Map([...box.children].map((card) => [card.dataset.as, card]));
    settle(box, tools.map((tool) => there.get(toolShownAs(tool)) ?? toolCard(tool, classes, does)));
    block.hidden = tools.length === 0;
    return block;
  }

  function toolShownAs(tool) { return `${tool.tool}\n${tool.pin}`; }

  // A tool whose server does not say what it may do, to be classed by a person. `does.confirm(tool, class, code)`.
  function toolCard(tool, classes, does) {
    const said = el("p", { class: "muted", role: "status" });
    const select = el("select", { "aria-label": `What ${tool.title} may do` },
      ...classes.map((name) => el("option", { value: name, text: CLASS_WORDS[name] ?? name })));
    select.value = tool.proposed;
    const code = el("input", { type: "text", inputmode: "numeric", maxlength: "6", autocomplete: "one-time-code" });
    const confirm = el("button", { type: "button", class: "yes", text: "Confirm" });
    confirm.addEventListener("click", async (event) => {
      if (!isPressed(event) || confirm.disabled) return;
      confirm.disabled = true;
      try { said.textContent = await does.confirm(tool, select.value, code.value); }
      catch (error) { said.textContent = error.message; }
      confirm.disabled = false;
    });
    const takes = tool.takes.length ? `It takes: ${tool.takes.join(", ")}` : "It takes nothing.";
    const card = el("article", { class: "action", "data-as": toolShownAs(tool) }, el("h3", { text: tool.title }),
      el("p", { class: "told", text: tool.words ? `Its server writes: ${tool.words}\n${takes}` : takes }),
      does.asksCodes ? el("label", {}, "Code of the authenticator app ", code) : null,
      el("div", { class: "buttons" }, select, confirm), said);
    liveAfter([confirm], does.minSeconds, card);
    return card;
  }

  return { el, runBlock, recentRuns, toolsBlock, planGraph, isPressed };
})();
